"""How gymnasium comes to know the sample environments, without importing it before the user does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from lucky_recorder.lazy import lazy

if TYPE_CHECKING:
    import gymnasium
else:
    gymnasium = lazy("gymnasium")

ENTRY_POINTS = {
    "LuckyRecorder/PickCube-v0": "lucky_recorder.envs.pick_cube:PickCubeEnv",
    "LuckyRecorder/TwinArms-v0": "lucky_recorder.envs.twin_arms:TwinArmsEnv",
}
MAX_EPISODE_STEPS = 120


def register() -> None:
    """Import gymnasium and register the sample environments with it; those it already has are left alone."""
    for env_id, entry_point in ENTRY_POINTS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point, max_episode_steps=MAX_EPISODE_STEPS)


def register_when_imported() -> None:
    """Register now if gymnasium is imported, else right after somebody imports it."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _GymnasiumFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _GymnasiumFinder())


class _GymnasiumFinder(MetaPathFinder):
    """Finds gymnasium as the other finders do, and has its loader register the environments afterwards."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        spec = self._spec_of_others(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader)
        return spec

    def _spec_of_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        # Only those after this one: a second copy of this module has a finder of its own, and two that ask all others
        # would ask each other without end.
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        return next((spec for spec in specs if spec is not None), None)


class _RegisteringLoader(Loader):
    """Loads a module with its own loader, then registers the environments and withdraws the finder."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Put back before gymnasium runs: whoever asks for its loader must get the real one.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _GymnasiumFinder)]
        register()
