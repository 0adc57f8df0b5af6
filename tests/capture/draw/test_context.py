from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lucky_recorder.capture.draw import context as gl
from lucky_recorder.errors import GLError

TESTS = Path(__file__).resolve().parents[3]
DRAWS = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
{before}
import mujoco, numpy as np
import lucky_recorder as lr
from tests.capture.drawing import Film
from tests.capture.models import scene
model = scene("joint_zoo")
with Film(model, mujoco.MjData(model), [lr.Camera("overview", width=32, height=32)]) as film:
    [pixels] = film.frame()
    context = film.source.renderer._graphics.gl
print(context.backend, context.is_software, pixels.shape, int(pixels.astype(np.int64).sum()))
"""


def drawn(environment: dict[str, str | None], before: str = "") -> subprocess.CompletedProcess[str]:
    """Draw a frame in a process of its own."""
    env = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    env |= {k: v for k, v in environment.items() if v is not None}
    code = DRAWS.format(tests=str(TESTS), root=str(TESTS), before=before)
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def known() -> str:
    done = drawn({"MUJOCO_GL": "egl"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("egl")
    return done.stdout


@pytest.mark.parametrize("chosen", [None, "glfw", "disabled"])
def test_whatever_mujoco_gl_says(known: str, chosen: str | None) -> None:
    done = drawn({"MUJOCO_GL": chosen})
    assert done.returncode == 0, done.stderr
    assert done.stdout == known
    assert done.stderr == ""


def test_whatever_was_imported_first(known: str) -> None:
    done = drawn({}, before="import OpenGL.GL")
    # Older releases of MuJoCo cannot undo that; then the error says what to set.
    assert done.stdout == known or "set PYOPENGL_PLATFORM=egl before Python starts" in done.stderr


def test_a_platform_that_pyopengl_is_bound_to_and_cannot_do_is_an_error_that_says_so() -> None:
    done = drawn({"PYOPENGL_PLATFORM": "glx"})
    assert done.returncode == 1
    assert "GLError" in done.stderr
    assert "PYOPENGL_PLATFORM='glx' keeps PyOpenGL from egl; unset it" in done.stderr


needs_osmesa = pytest.mark.skipif(not gl._has_osmesa(), reason="libOSMesa is not installed")


@needs_osmesa
@pytest.mark.parametrize("environment", [{"PYOPENGL_PLATFORM": "osmesa"}, {"MUJOCO_GL": "osmesa"}])
def test_osmesa_draws_the_same_pixels(known: str, environment: dict[str, str]) -> None:
    done = drawn(environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == known.replace("egl", "osmesa")


@needs_osmesa
def test_osmesa_is_taken_where_egl_is_missing(known: str) -> None:
    done = drawn({}, before="from lucky_recorder.capture.draw import context; context._has_egl = lambda: False")
    assert done.returncode == 0, done.stderr
    assert done.stdout == known.replace("egl", "osmesa")


def test_egl_is_there() -> None:
    assert gl._has_egl()


@pytest.mark.parametrize(
    ("platform", "chosen", "present", "candidates"),
    [
        (None, None, ("egl", "osmesa"), ["egl"]),
        (None, "egl", ("egl", "osmesa"), ["egl"]),
        (None, "osmesa", ("egl", "osmesa"), ["osmesa"]),
        (None, "glfw", ("osmesa",), ["osmesa"]),
        (None, "osmesa", ("egl",), ["egl"]),
        (None, None, (), []),
        ("egl", "osmesa", ("osmesa",), ["egl"]),
        ("OSMesa", None, ("egl",), ["osmesa"]),
        ("glx", None, ("egl",), ["egl"]),
    ],
)
def test_which_backend_is_tried(
    monkeypatch: Any, platform: str | None, chosen: str | None, present: Any, candidates: list[str]
) -> None:
    for name, value in (("PYOPENGL_PLATFORM", platform), ("MUJOCO_GL", chosen)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(gl, "_has_egl", lambda: "egl" in present)
    monkeypatch.setattr(gl, "_has_osmesa", lambda: "osmesa" in present)
    assert gl._candidates() == candidates


def test_a_missing_library_is_no_backend(monkeypatch: Any) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not gl._has_egl()
    assert not gl._has_osmesa()


class Library:
    """A libEGL that knows no devices: it has not even the function to ask."""

    def __init__(self, name: str) -> None:
        self.eglGetProcAddress = self

    def __call__(self, name: bytes) -> None:
        return None


def test_an_egl_that_cannot_list_devices_is_no_backend(monkeypatch: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert not gl._has_egl()
    assert gl._has_osmesa()


def test_a_backend_that_fails_says_how_and_what_to_install(monkeypatch: Any) -> None:
    def broken(backend: str) -> None:
        raise RuntimeError("no EGL device")

    monkeypatch.setattr(gl, "make_context_of", broken)
    monkeypatch.setattr(gl, "_candidates", lambda: ["egl"])
    with pytest.raises(GLError, match=r"libosmesa6.*record without cameras; egl: no EGL device"):
        gl.make_context()


@pytest.mark.parametrize(("backend", "library"), [("egl", "libEGL"), ("osmesa", "libOSMesa")])
def test_a_backend_without_its_library_names_it(monkeypatch: Any, backend: str, library: str) -> None:
    monkeypatch.setenv("PYOPENGL_PLATFORM", backend)
    monkeypatch.setattr(gl, "_has_egl", lambda: False)
    monkeypatch.setattr(gl, "_has_osmesa", lambda: False)
    with pytest.raises(GLError, match=f"{backend}: {library}.* not installed"):
        gl.make_context()


@pytest.mark.parametrize(
    ("renderer", "is_software"),
    [("llvmpipe (LLVM 15.0.6, 256 bits)", True), ("softpipe", True), ("NVIDIA H200/PCIe", False), ("unknown", False)],
)
def test_software_is_told_by_its_name(renderer: str, is_software: bool) -> None:
    assert gl.Context(None, "egl", renderer).is_software is is_software
