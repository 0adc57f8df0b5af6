"""How a folder is spoilt, in one place at a time: everything follows from the random numbers that are given."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Random = random.Random
VIDEO_KEY = "observation.images.Front"
_NAMES = ("x\ny", "\x1b[31mred\x1b[0m", "..", "a" * 250, "ü\u202e", "-rf", "nul", " ", "a\\b")


class Outside:
    """Files beside the folder, which nobody may touch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("file", "meta/info.json", "chunk-000/file-000.mp4", "deep/x.mp4"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"{name} is nobody's business")


def spoil(folder: Path, outside: Outside, rng: Random) -> str:
    """Spoil a copy of a good folder; returns what was done, in words."""
    done = [rng.choice(_KINDS)(folder, outside, rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    return "; ".join(done)


def _file(folder: Path, rng: Random, *suffixes: str) -> Path:
    found = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink() and p.suffix in suffixes)
    return rng.choice(found or sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()))


_ANY = (".json", ".parquet", ".mp4", ".mkv")


# Bytes.


def flip(folder: Path, outside: Outside, rng: Random) -> str:
    path = _file(folder, rng, *_ANY)
    content = bytearray(path.read_bytes()) or bytearray(1)
    for _ in range(rng.choice((1, 1, 4, 40))):
        place = rng.randrange(len(content)) if rng.random() < 0.6 else -1 - rng.randrange(min(len(content), 600))
        content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"bits of {path.name} flipped"


def cut(folder: Path, outside: Outside, rng: Random) -> str:
    path = _file(folder, rng, *_ANY)
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) + 1)] + rng.choice((b"", b"\0" * 64, b"\xff" * 7)))
    return f"{path.name} cut off"


def blot(folder: Path, outside: Outside, rng: Random) -> str:
    path = _file(folder, rng, *_ANY)
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content) + 1)
    content[start : start + rng.randrange(1, 200)] = rng.randbytes(rng.randrange(200))
    path.write_bytes(content)
    return f"a part of {path.name} replaced"


def swap(folder: Path, outside: Outside, rng: Random) -> str:
    one, other = _file(folder, rng, *_ANY), _file(folder, rng, *_ANY)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"{one.name} and {other.name} swapped"


# What stands in a file's or a folder's place.


def replace(folder: Path, outside: Outside, rng: Random) -> str:
    path = _file(folder, rng, *_ANY)
    what = rng.choice(("gone", "pipe", "zero", "link out", "loop", "folder", "socket", "empty", "link in", "null"))
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "socket":
        here = os.getcwd()
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
        os.chdir(here)
    elif what == "folder":
        (path / "in").mkdir(parents=True)
    elif what == "empty":
        path.touch()
    elif what != "gone":
        target = {"zero": "/dev/zero", "null": "/dev/null", "loop": path.name, "link out": str(outside.root / "file")}
        path.symlink_to(target.get(what) or os.path.relpath(_file(folder, rng, path.suffix), path.parent))
    return f"{path.name}: {what}"


def relocate(folder: Path, outside: Outside, rng: Random) -> str:
    place = rng.choice(sorted(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink()))
    what = rng.choice(("gone", "linked out", "loop", "file", "pipe", "renamed"))
    if what == "linked out":
        shutil.rmtree(place)
        place.symlink_to(outside.root)
    elif what == "renamed":
        place.rename(place.with_name(rng.choice(_NAMES[:2])))
    else:
        shutil.rmtree(place)
        if what == "loop":
            place.symlink_to(place.name)
        elif what == "file":
            place.write_text("x")
        elif what == "pipe":
            os.mkfifo(place)
    return f"folder {place.name}: {what}"


def litter(folder: Path, outside: Outside, rng: Random) -> str:
    """Put something more into the folder, or a link where writers put what is theirs."""
    place = rng.choice([folder, *sorted(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())])
    name = rng.choice((".lock", "manifest.json.tmp", "info.json.tmp", ".tmp-1-2", "overlay.json.tmp", *_NAMES))
    path = place / name
    if os.path.lexists(path):
        return "nothing"
    what = rng.choice(("pipe", "link", "dangling", "hard link", "folder", "copy"))
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(outside.root / "file")
    elif what == "dangling":
        path.symlink_to(outside.root / "made")
    elif what == "hard link":
        os.link(outside.root / "file", path)
    elif what == "folder":
        path.mkdir()
    else:
        shutil.copy(_file(folder, rng, *_ANY), path)
    return f"{name!r} in {place.name}: {what}"


# JSON.


def hostile(outside: Outside, rng: Random) -> Any:
    deep: Any = 0
    for _ in range(rng.choice((70, 900))):
        deep = [deep]
    return rng.choice(
        (
            *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, 1e-308, 0.5, "", "x", [], {}),
            *("../../outside/file", str(outside.root / "file"), "..", ".", "/", "a/b", "a\\b", "x\0y", "\ud800"),
            *("\x1b[31mred\n", "x" * 100_000, [None], [[]], {"": None}, [1e999], "NaN", deep, [0] * 50_000),
            *("../../outside/{chunk_index}", "{video_key}{video_key}", "data/{file_index:09d}", [1, "x", None, {}]),
        )
    )


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, one in inside for p in ((*path, key), *_places(one, (*path, key)))]


def reword(folder: Path, outside: Outside, rng: Random) -> str:
    path = _file(folder, rng, ".json")
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        return "nothing"
    # Fields near the top more often: there are few of them.
    places = _places(content)
    if not places:
        return "nothing"
    *way, last = rng.choice([p for p in places if len(p) <= rng.choice((1, 2, 9))] or places)
    parent = content
    for key in way:
        parent = parent[key]
    what = rng.choice(("value", "value", "value", "gone", "key", "twice"))
    new = hostile(outside, rng)
    if what == "value" or isinstance(parent, list):
        parent[last] = new
    elif what == "gone":
        del parent[last]
    else:
        parent[new if isinstance(new, str) else str(new)[:50]] = parent[last]
        if what == "key":
            parent.pop(last)
    path.write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")
    return f"{path.name}: {what} of {[*way, last]} {str(new)[:40]!r}"


def rename_stream(folder: Path, outside: Outside, rng: Random) -> str:
    """Give a stream another key wherever it stands, and its files a place where they are found under it."""
    key = rng.choice((str(outside.root / "chunk-000"), "../../outside", "a/b", "../x", "\x1b[2J", "x" * 300, "o\\p"))
    prefix = rng.choice(("", "observation.images."))
    for path in folder.rglob("*.json"):
        if not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            path.write_text(text.replace(json.dumps(VIDEO_KEY), json.dumps(prefix + key)), encoding="utf-8")
    for path in folder.rglob("meta/episodes/*/*.parquet"):
        try:
            table = pq.read_table(path, partitioning=None)
        except (OSError, ValueError, TypeError):
            # Something else has spoilt it before.
            continue
        names = [n.replace(VIDEO_KEY + "/", prefix + key + "/") for n in table.column_names]
        pq.write_table(table.rename_columns(names), path)
    return f"a stream is called {prefix + key!r}"


# Parquet.


def _bomb(rng: Random, rows: int) -> pa.Array:
    """Few bytes in the file, many in memory."""
    kind = rng.choice(("lists", "texts", "numbers"))
    if kind == "lists":
        long = max(1, 20_000_000 // max(rows, 1))
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * long)
        return pa.ListArray.from_arrays(offsets, pa.array(np.zeros(rows * long, np.float32)))
    if kind == "texts":
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 10_000_000]))
    return pa.array(np.zeros(rows, np.int64))


def _column(rng: Random, rows: int) -> pa.Array:
    numbers = rng.choice(([-1] * rows, [2**62] * rows, [None] * rows, list(range(rows, 0, -1)), [0] * rows))
    kinds: list[Callable[[], pa.Array]] = [
        lambda: pa.array(numbers, pa.int64()),
        lambda: pa.array([None] * rows),
        lambda: pa.array(["\x1b[31m\n/etc/passwd"] * rows),
        lambda: pa.array([b"\xff\xfe"] * rows),
        lambda: pa.array([rng.choice((float("nan"), float("inf"), 1e308, -0.0)) for _ in range(rows)]),
        lambda: pa.array([[0.0] * rng.randrange(4) for _ in range(rows)]),
        lambda: pa.array([[None]] * rows, pa.list_(pa.float64())),
        lambda: pa.array([[[1.0]]] * rows),
        lambda: pa.array([{"a": 1}] * rows),
        lambda: pa.array([True] * rows),
        lambda: pa.array(numbers, pa.int64()).cast(pa.timestamp("ns")),
        lambda: pa.array(["a"] * rows).dictionary_encode(),
        lambda: pa.array([2**64 - 1] * rows, pa.uint64()),
        lambda: _bomb(rng, rows),
    ]
    return rng.choice(kinds)()


def retype(folder: Path, outside: Outside, rng: Random) -> str:
    path = _file(folder, rng, ".parquet")
    try:
        table = pq.read_table(path, partitioning=None)
    except (OSError, ValueError, TypeError):
        return "nothing"
    number = rng.randrange(table.num_columns)
    name = table.column_names[number]
    what = rng.choice(("other", "other", "gone", "twice", "renamed", "fewer", "more", "none", "shuffled", "many"))
    if what == "other":
        table = table.set_column(number, name, _column(rng, table.num_rows))
    elif what == "gone":
        table = table.remove_column(number)
    elif what == "twice":
        table = table.append_column(rng.choice(table.column_names), table.column(number))
    elif what == "renamed":
        table = table.rename_columns(
            [*table.column_names[:number], rng.choice(_NAMES), *table.column_names[number + 1 :]]
        )
    elif what == "fewer":
        table = table.slice(0, rng.randrange(table.num_rows + 1))
    elif what == "more":
        table = pa.concat_tables([table, table.slice(0, 1)])
    elif what == "none":
        table = table.slice(0, 0)
    elif what == "shuffled":
        table = table.take(pa.array(rng.sample(range(table.num_rows), table.num_rows), pa.int64()))
    else:
        table = table.take(pa.array(np.zeros(rng.choice((100_000, 1_000_000)), np.int64)))
    metadata = rng.choice((table.schema.metadata, None, {b"pandas": b"{]", b"lucky_recorder.episodes": b"[{}, 1]"}))
    pq.write_table(table.replace_schema_metadata(metadata), path, store_schema=rng.random() < 0.7)
    return f"{path.name}: column {name}: {what}"


_KINDS = (flip, flip, cut, blot, swap, replace, relocate, litter, reword, reword, reword, rename_stream, retype, retype)
