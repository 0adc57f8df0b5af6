"""Where the packaged MJCF scenes lie, in an installed wheel and in a checkout."""

from __future__ import annotations

from pathlib import Path

from lucky_recorder.errors import SettingsError

_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = (_PACKAGE / "scenes", _PACKAGE.parent / "scenes")


def scene_path(name: str) -> Path:
    """Give the path of a packaged MJCF scene.

    Args:
        name: The scene's file name without its ending: ``"pick_cube"``, ``"twin_arms"``, ``"joint_zoo"``.

    Returns:
        The absolute path of an ``.xml`` file that ``mujoco.MjModel.from_xml_path`` can load.

    Raises:
        SettingsError: No scene has that name; the message lists those there are.
    """
    for folder in _FOLDERS:
        path = folder / f"{name}.xml"
        # A name with a slash would lead to other folders.
        if path.name == f"{name}.xml" and path.is_file():
            return path
    raise SettingsError.of("scene", name, f"choose one of {', '.join(_scene_names())}")


def _scene_names() -> list[str]:
    """The names of all packaged scenes, sorted."""
    return sorted({path.stem for folder in _FOLDERS for path in folder.glob("*.xml")})
