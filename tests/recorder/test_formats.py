from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import lucky_recorder as lr
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import SettingsError, StorageError
from lucky_recorder.koyu.sink import KoyuSink
from lucky_recorder.recorder import formats
from lucky_recorder.session import layout
from lucky_recorder.session import sink as session_sink
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.storage import arrow
from lucky_recorder.storage.lock import is_held
from lucky_recorder.testing import CountEnv, MemorySink
from lucky_recorder.video.decode import decode_all
from tests.session.building import arm_schema, custom_schema

CUBES = {"name": "cubes"}


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, ("session",)),
        ({"koyu": CUBES}, ("session", "koyu")),
        ({"koyu": CUBES, "formats": ["koyu"]}, ("koyu",)),
        ({"koyu": CUBES, "formats": ["session"]}, ("session",)),
    ],
)
def test_what_is_written_follows_from_the_settings(
    tmp_path: Path, fields: dict[str, Any], written: tuple[str, ...]
) -> None:
    settings = RecorderSettings(output_dir=tmp_path, **fields)
    assert settings.written_formats == written
    opened: list[Sink] = []
    sinks = formats.make_sinks(settings, (), opened.append)
    kinds = {"session": SessionSink, "koyu": KoyuSink}
    assert [type(sink) for sink in sinks] == [kinds[name] for name in written]
    assert opened == list(sinks)[::-1]
    for sink in sinks:
        sink.close()


def test_sinks_of_ones_own_follow_the_formats(tmp_path: Path) -> None:
    own = MemorySink(tmp_path)
    sinks = formats.make_sinks(RecorderSettings(output_dir=tmp_path, koyu=CUBES), (own,), lambda sink: None)
    assert [type(sink) for sink in sinks] == [SessionSink, KoyuSink, MemorySink]
    assert formats.make_sinks(RecorderSettings(formats=()), (own,), lambda sink: None) == (own,)
    for sink in sinks:
        sink.close()
    assert own.is_closed


def test_what_is_written_nowhere_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"formats=\(\): name at least one of session, koyu, or leave it out, or give"
    ):
        lr.Observer(formats=())


@pytest.mark.parametrize(
    "sinks",
    [3, None, [3], "x", [None], [MemorySink], [object()], {"a": 1}, ["a:B"]],
    ids=lambda sinks: type(sinks).__name__,
)
@pytest.mark.parametrize(
    "make", [lambda sinks: lr.Observer(sinks=sinks), lambda s: lr.RecordSession(CountEnv(), sinks=s)]
)
def test_what_is_no_sink_is_refused_by_the_constructor(make: Any, sinks: Any) -> None:
    with pytest.raises(SettingsError, match=r"^sinks(\[0\])?=.*: give "):
        make(sinks)


def test_a_sink_given_twice_is_refused(tmp_path: Path) -> None:
    own = MemorySink(tmp_path)
    with pytest.raises(SettingsError, match="stands twice"):
        lr.Observer(sinks=[own, MemorySink(tmp_path), own])


def test_sinks_may_come_from_a_generator(tmp_path: Path) -> None:
    own = MemorySink(tmp_path)
    env = lr.RecordSession(CountEnv(2), mode="custom", gym_columns=True, formats=(), sinks=(one for one in [own]))
    for seed in (0, 1):
        env.reset(seed=seed)
        for _ in range(2):
            env.step(np.zeros(1))
    env.close()
    assert [record.data_ticks for record in own.records] == [2, 2]


def test_a_sink_in_memory_serves_one_session_after_another(tmp_path: Path) -> None:
    own = MemorySink(tmp_path)
    camera = {"name": "seen", "source": "render", "width": 64, "height": 48}
    for length in (3, 2):
        with lr.RecordSession(
            CountEnv(length, render_mode="rgb_array"), mode="custom", gym_columns=True, cameras=[camera],
            formats=(), sinks=[own],
        ) as env:  # fmt: skip
            env.reset(seed=0)
            assert not own.is_closed
            for _ in range(length):
                env.step(np.zeros(1))
        assert own.is_closed
    videos = [record.videos["observation.images.seen"].file for record in own.records]
    assert [(len(decode_all(v.path)), v.frames) for v in videos] == [(3, 3), (2, 2)]


def test_a_sink_that_is_not_ready_closes_all_that_were_made(tmp_path: Path) -> None:
    own = MemorySink(tmp_path)

    def refuse(sink: Sink) -> None:
        if isinstance(sink, SessionSink):
            raise StorageError("not ready")

    with pytest.raises(StorageError, match="not ready"):
        formats.make_sinks(RecorderSettings(output_dir=tmp_path), (own,), refuse)
    assert own.is_closed
    assert list(tmp_path.glob("DataSessions/*")) == []


def test_koyu_on_top_of_settings_adds_bundles() -> None:
    assert RecorderSettings.of(RecorderSettings(), koyu=CUBES).written_formats == ("session", "koyu")


def test_a_schema_is_refused_only_by_a_format_that_is_written() -> None:
    settings = RecorderSettings(koyu=CUBES, formats=("session",))
    formats.refuse(settings, custom_schema(), [])
    with pytest.raises(SettingsError, match="a bundle needs a column"):
        formats.refuse(evolve(settings, formats=None), custom_schema(), [])


def test_where_no_session_can_be_made_no_bundle_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(output_dir: Path) -> Path:
        raise StorageError(f"{output_dir}: No space left on device")

    monkeypatch.setattr(layout, "claim_folder", refuse)
    settings = RecorderSettings(output_dir=tmp_path, koyu=CUBES)
    with pytest.raises(StorageError, match="No space left"):
        formats.make_sinks(settings, (), lambda sink: sink.open(arm_schema(), []))
    assert list((tmp_path / "cubes/episodes").iterdir()) == []


def test_between_the_folder_of_a_session_and_its_lock_nothing_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks in between finds a folder that nobody holds."""
    done: list[str] = []
    for home, name in ((arrow, "warm_up"), (layout, "claim_folder"), (session_sink, "hold")):
        working = getattr(home, name)
        monkeypatch.setattr(home, name, lambda *a, w=working, n=name: (done.append(n), w(*a))[1])
    (made,) = formats.make_sinks(RecorderSettings(output_dir=tmp_path), (), lambda sink: None)
    assert is_held(made.root)
    made.close()
    assert done[0] == "warm_up"
    assert done.index("hold") > done.index("claim_folder")


def test_what_writes_a_session_is_imported_before_its_folder_is_made(tmp_path: Path) -> None:
    watch = (
        "import sys; from pathlib import Path; from lucky_recorder.recorder import formats; "
        "from lucky_recorder.settings.recorder import RecorderSettings; from lucky_recorder.session import layout; "
        "claim = layout.claim_folder; known = []; "
        "layout.claim_folder = lambda folder: (known.extend(sys.modules), claim(folder))[1]; "
        "sink, = formats.make_sinks(RecorderSettings(output_dir=Path(sys.argv[1])), (), lambda sink: None); "
        "sink.close(); print(sorted(name for name in set(sys.modules) - set(known)))"
    )
    done = subprocess.run([sys.executable, "-c", watch, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
