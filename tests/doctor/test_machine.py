from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw import trial
from lucky_recorder.doctor import disk
from lucky_recorder.doctor import machine as doctor
from lucky_recorder.doctor.machine import Finding
from lucky_recorder.errors import GLError, StorageError
from lucky_recorder.video.codecs import CODECS


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    """What the doctor finds on this machine."""
    return {f.name: f for f in doctor.examine(tmp_path_factory.mktemp("out"))}


def answer(value: Any = None, failure: str = "") -> Any:
    return doctor._Answer(value, failure)


def one(findings: Any, name: str) -> Finding:
    (found,) = [f for f in findings if f.name == name]
    return found


def drawn(backend: str) -> Any:
    return answer({"backend": backend, "renderer": "llvmpipe (LLVM 15)", "is_software": True})


def test_this_machine_is_ready_and_everything_needed_is_looked_at(here: dict[str, Finding]) -> None:
    assert doctor.is_ready(list(here.values()))
    needed = {name for name, f in here.items() if f.needed}
    assert needed == {"python", *doctor.LIBRARIES, "cameras", "codec h264", "output folder", "space"}
    others = {f"GL {b}" for b in doctor.BACKENDS} | {f"codec {key}" for key in CODECS} | {"disk", "hard links"}
    assert set(here) == needed | others
    assert all(f.detail for f in here.values())
    assert {name for name, f in here.items() if f.remedy and f.status == "ok"} == set()


def test_the_renderer_and_the_versions_are_named(here: dict[str, Finding]) -> None:
    assert here["cameras"].detail.endswith(("(software)", "(hardware)"))
    assert here["mujoco"].detail == importlib.metadata.version("mujoco")
    assert here["codec h264"].detail == "libx264 encodes"


def test_findings_are_plain_json(here: dict[str, Finding]) -> None:
    finding = here["codec h264"]
    assert json.loads(json.dumps(finding._asdict()))["needed"] is True


def test_without_a_library_that_draws_the_machine_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader finds files that are no libraries, in their place."""
    for name in ("libEGL.so.1", "libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
        (tmp_path / name).write_bytes(b"no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.delenv("PYOPENGL_PLATFORM", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    findings = doctor.examine(tmp_path)
    assert not doctor.is_ready(findings)
    cameras = one(findings, "cameras")
    assert cameras.status == "missing"
    assert cameras.remedy == "apt-get install libegl1 libgl1-mesa-dri libopengl0"
    egl = one(findings, "GL egl")
    assert (egl.status, egl.needed) == ("missing", False)
    assert egl.detail == "libEGL or libOpenGL is not installed, or finds no device to draw on"
    osmesa = one(findings, "GL osmesa")
    assert osmesa.detail == "libOSMesa is not installed"
    assert osmesa.remedy == "apt-get install libosmesa6"
    assert one(findings, "codec h264").status == "ok"


@pytest.mark.parametrize(
    ("working", "remedy"),
    [
        ({"egl"}, "export PYOPENGL_PLATFORM=egl"),
        ({"osmesa"}, "export PYOPENGL_PLATFORM=osmesa"),
        ({"egl", "osmesa", "glfw"}, "export PYOPENGL_PLATFORM=egl"),
        ({"glfw"}, "apt-get install libegl1 libgl1-mesa-dri libopengl0"),
    ],
)
def test_where_another_backend_draws_the_remedy_is_to_take_it(working: set[str], remedy: str) -> None:
    backends = {b: drawn(b) if b in working else answer(failure="no") for b in doctor.BACKENDS}
    finding = doctor._pictures(answer(failure="black"), backends)
    assert finding == Finding("cameras", "missing", "black", remedy)


def test_a_driver_that_draws_something_else_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial.draw().backend in ("egl", "osmesa")
    monkeypatch.setattr(trial, "RIGHT", (0, 255, 240))
    with pytest.raises(GLError, match=r"wrong pictures: the right wall is \(0, 255, 255\), expected \(0, 255, 240\)"):
        trial.draw()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.abort()", "crashed with signal 6"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "no reason given"),
        ("from lucky_recorder import GLError; raise GLError('no device')", "no device"),
    ],
)
def test_a_process_that_crashes_or_fails_is_a_reason_in_words(program: str, reason: str) -> None:
    with doctor._Trial(["-c", program]) as process:
        assert process.answer(lambda value: True) == answer(failure=reason)


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.1)
    with doctor._Trial(["-c", "import threading; threading.Event().wait()"]) as process:
        assert process.answer(lambda value: True) == answer(failure="no answer within 0.1 s")
    assert process._process.returncode < 0


def test_chatter_before_the_answer_is_passed_over() -> None:
    with doctor._Trial(["-c", "print('driver 1.2 loaded'); print('[1, 2]')"]) as process:
        assert process.answer(lambda value: True) == answer([1, 2])


def test_what_lies_in_the_working_folder_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError('not me')")
    monkeypatch.chdir(tmp_path)
    with doctor._Trial(["-c", doctor._IMPORT, "numpy"]) as process:
        assert process.answer(lambda value: True) == answer()


def test_a_process_imports_the_package_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    program = "import json, lucky_recorder as lr, sys; print(json.dumps([lr.__file__, sys.path[0]]))"
    with doctor._Trial(["-c", program]) as process:
        assert process.answer(lambda value: True) == answer([lr.__file__, str(Path(lr.__file__).parents[1])])


def test_what_is_examined_is_not_imported() -> None:
    program = (
        "import sys, lucky_recorder.doctor.machine as machine\n"
        "print([name for name in (*machine.LIBRARIES, 'OpenGL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_library_that_is_not_there_too_old_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = ["mujoco>=3.3.7", "av>=15", "pyarrow>=17", "gymnasium[mujoco]>=1.1", "pandas>=2; extra == 'dev'"]
    monkeypatch.setattr(importlib.metadata, "requires", {"lucky-recorder": declared}.__getitem__)
    assert doctor._library("no-such-library", answer(failure="x")) == Finding(
        "no-such-library", "missing", "not installed", "pip install no-such-library"
    )
    broken = doctor._library("av", answer(failure="ImportError: libx.so.1"))
    assert broken.remedy == "pip install --force-reinstall 'av>=15'"
    versions = {"mujoco": "3.3.6", "av": "15.0.0", "pyarrow": "26.0.1"}
    monkeypatch.setattr(importlib.metadata, "version", versions.__getitem__)
    assert doctor._library("mujoco", answer()) == Finding(
        "mujoco", "missing", "3.3.6 is too old, 3.3.7 is needed", "pip install 'mujoco>=3.3.7'"
    )
    assert doctor._library("av", answer()).status == "ok"
    failure = "ImportError: pyarrow requires NumPy 2.0 or newer, found 1.26.4"
    assert "'pyarrow<25'" in doctor._library("pyarrow", answer(failure=failure)).remedy


def test_an_optional_codec_that_does_not_encode_is_no_obstacle_but_h264_is() -> None:
    works = {"h264": ["libx264", True], "hevc": ["libx265", False], "h264_nvenc": ["h264_nvenc", False]}
    findings = list(doctor._codecs(answer(works)))
    assert [(f.name, f.status, f.needed) for f in findings] == [
        ("codec h264", "ok", True),
        ("codec hevc", "missing", False),
        ("codec h264_nvenc", "missing", False),
    ]
    assert doctor.is_ready(findings)
    assert not doctor.is_ready(list(doctor._codecs(answer({"h264": ["libx264", False]}))))
    (broken,) = doctor._codecs(answer(failure="crashed with signal 11"))
    assert (broken.status, broken.needed, broken.detail) == ("missing", True, "crashed with signal 11")


def test_the_disk_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    measured = disk.measure(tmp_path / "not" / "yet")
    assert measured.folder == tmp_path
    assert measured.bytes_per_s > 0
    assert measured.fsync_s > 0
    assert measured.free_bytes > 0
    assert measured.has_hard_links is True
    assert list(tmp_path.iterdir()) == []


def test_a_trial_of_speed_ends_at_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_MOST_BYTES", 3 << 20)
    monkeypatch.setattr(disk, "_LONGEST_S", 60.0)
    disk._speed(tmp_path)
    assert (tmp_path / "speed").stat().st_size == 3 << 20


def test_a_trial_of_speed_ends_at_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_LONGEST_S", -1.0)
    assert disk._speed(tmp_path) == 0


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StorageError, match=str(file)):
        disk.measure(file / "out")
    (finding,) = doctor._disk(file / "out")
    assert (finding.name, finding.status, finding.needed) == ("output folder", "missing", True)
    assert str(file) in finding.detail
    assert str(file) in finding.remedy

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        disk.measure(tmp_path)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_system_without_hard_links_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    found = one(doctor._disk(tmp_path), "hard links")
    assert (found.status, found.needed) == ("warning", False)


@pytest.mark.parametrize(("free", "status"), [(50e6, "missing"), (1e9, "warning"), (5e9, "ok")])
def test_little_space_is_a_warning_and_none_an_obstacle(free: float, status: str) -> None:
    finding = doctor._space(disk.Disk(Path("/data"), 1e9, 0.001, int(free), True))
    assert finding.status == status
    assert ("/data" in finding.remedy) == (status != "ok")
    assert doctor.is_ready([finding]) == (status != "missing")


@pytest.mark.parametrize(
    ("speed", "sync", "status"), [(5e6, 0.001, "warning"), (1e9, 0.5, "warning"), (1e9, 0.01, "ok")]
)
def test_a_slow_disk_is_a_warning(speed: float, sync: float, status: str) -> None:
    finding = doctor._speed(disk.Disk(Path("/data"), speed, sync, 10**10, True))
    assert finding.status == status
    assert doctor.is_ready([finding])


@pytest.mark.parametrize(
    "program",
    [
        "pass",
        "print()",
        "print('Segmentation fault')",
        "print('[' * 100_000)",
        "print('{}'); print('driver unloaded')",
        "print('{\"backend\": 1}')",
        "print('[1, 2]')",
        "print('\\x1b[31m')",
    ],
)
def test_a_trial_that_talks_nonsense_is_a_reason_in_words(program: str) -> None:
    with doctor._Trial(["-c", program]) as process:
        said = process.answer(doctor._is_drawn)
    assert said.value is None
    assert said.failure.startswith("its answer is none: ")
    assert len(said.failure) < 400


@pytest.mark.parametrize("value", [None, [], {"h264": None}, {"h264": ["libx264"]}, {"h264": ["libx264", 1]}, 7])
def test_codecs_that_are_none(value: Any) -> None:
    assert not doctor._are_codecs(value)
    assert doctor._are_codecs({"h264": ["libx264", True]})
