"""How much is read of what a folder declares, once. A small file may say that it holds gigabytes.

Together they keep what reading a folder takes below 500 MB, whoever made it, but for all rows of an episode at once:
tables and JSON are bounded by what they come to in memory, pictures by their size, and all of it is known before
anything of that size is allocated.
"""

from __future__ import annotations

MEGABYTE = 1 << 20

# Rows of a file or an episode: more are taken for a broken file.
MOST_ROWS = 100_000_000
# What a table may come to in memory, whatever the size of its file: a few bytes can stand for a hundred million rows.
# A million rows of twenty numbers fit. A file that is large itself may hold what it is: so many times its own size.
MOST_TABLE_BYTES, TABLE_BYTES_PER_FILE_BYTE = 192 * MEGABYTE, 4
# What as many rows as are listed come to, of columns as large as they are declared: close below what a small folder may
# cost at all. Two million rows of two vectors of seven fit. Who has more goes through them in parts.
MOST_EXPECTED_BYTES = 420 * MEGABYTE
# Of texts, which become Python's.
MOST_TEXT_BYTES = 64 * MEGABYTE
# Rows that become Python objects one by one, each a hundred times what it takes in the file: episodes, tasks.
MOST_LISTED = 200_000
# The values in them, of all columns together.
MOST_CELLS = 5_000_000
# A footer is read as a whole, and takes many times its size in memory. One of a thousand episodes of a hundred columns
# takes 12 MB. In one of its lists there may be as many row groups as episodes are listed.
LARGEST_FOOTER, MOST_IN_FOOTER = 16 * MEGABYTE, MOST_LISTED
# What a JSON file may hold on the disk, and come to in memory: "[]," is three bytes, and takes seventy. A manifest of
# two hundred thousand episodes fits.
LARGEST_JSON, MOST_JSON_BYTES = 64 * MEGABYTE, 320 * MEGABYTE
# Objects in objects. Ours are five deep; Python itself gives up at about a thousand.
DEEPEST_JSON = 64
# Pixels of a picture, 4096 x 4096. A decoder may keep sixteen of them, and each is converted and copied once.
MOST_PIXELS = 1 << 24
# Frames of a video: what its index says of each takes about 100 bytes.
MOST_FRAMES = 1_000_000
# A model, with all its meshes and textures.
LARGEST_MODEL = 2048 * MEGABYTE
# A settings file is written by hand.
LARGEST_SETTINGS = MEGABYTE
# Characters of a text that are shown to a person.
LONGEST_LINE = 2000
