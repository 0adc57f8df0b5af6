"""Names that come out of data and become paths: one part at a time, and never out of the folder they belong to."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from lucky_recorder.errors import FormatError, shown

# File systems take 255 bytes. What is left over is for endings and numbers that are put around a name.
LONGEST = 200
_SEPARATORS = "/\\" if os.name != "nt" else "/\\:"
# What no file's name can hold, wherever it comes from. Where a backslash separates nothing it is a letter.
_IMPOSSIBLE = "\0" if os.name != "nt" else "\0\\:"
# What is a name in any case, so that of most names no letter is looked at by itself.
_PLAIN = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9_.-]{{0,{LONGEST - 1}}}")


def part(name: object) -> str:
    """Return a name as one part of a path: a stream's key, a camera's or an episode's name.

    Whatever is read from a folder may have been written by anyone. A key such as ``../../x`` or ``/home/you/x`` would
    lead out of the folder that it is put into.

    Raises:
        FormatError: If it is no text, empty, too long, ``.`` or ``..``, or holds a separator or a control character.
    """
    if not isinstance(name, str) or not is_part(name):
        raise FormatError(f"{shown(name)}: is no name of a file; it may lead outside the folder")
    return name


def is_part(name: str) -> bool:
    """Tell whether a name is one part of a path; see `part`."""
    if _PLAIN.fullmatch(name):
        return True
    if name in ("", ".", "..") or any(c in _SEPARATORS or not (c.isprintable() or c.isspace()) for c in name):
        return False
    # `isspace` lets other scripts' spaces pass, and line breaks with them.
    return not any(c < " " or c in "\x7f\x85\u2028\u2029" for c in name) and len(name.encode()) <= LONGEST


def below(root: Path, relative: str) -> Path:
    """Return the path of something below a folder, by its name within the folder, parts joined by ``/``.

    Raises:
        FormatError: If a part cannot be the name of a file or folder: the path may lead elsewhere.
    """
    try:
        return root.joinpath(*map(part, PurePosixPath(relative).parts))
    except FormatError as error:
        raise FormatError(f"{root}: {shown(relative)} lies outside the folder: {error}") from None


def is_within(relative: str) -> bool:
    """Tell whether a name, parts joined by ``/``, is one of a file below a folder, in the one spelling that it has.

    People put files of their own beside ours. Their names may hold what `part` refuses, such as line breaks, and bytes
    that are no text: what counts here is that they do not lead out.
    """
    parts = relative.split("/")
    return not any(one in ("", ".", "..") or any(c in _IMPOSSIBLE for c in one) for one in parts)


def owned(root: Path, relative: str) -> Path:
    """Return the path of something to be written below a folder that somebody else may have made.

    Raises:
        FormatError: If a part cannot be a name, or is a link there: what is written would land elsewhere.
    """
    path = below(root, relative)
    for folder in (path, *path.parents):
        if folder == root:
            break
        if folder.is_symlink():
            remedy = "put the folder itself in its place" if folder.is_dir() else "remove the link"
            raise FormatError(f"{folder}: is a link: what is written there would land elsewhere; {remedy}")
    return path
