"""The pictures of a session, at random: frames of any episode's videos, by index, as a network takes them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, SettingsError, VideoError
from lucky_recorder.session.opened import scale_of
from lucky_recorder.session.reader import Session
from lucky_recorder.settings import validators as v
from lucky_recorder.video.pool import VideoPool

_CODES = "gray16le"


class Film:
    """Frames of a session's cameras. Threads may share it, and it can be pickled: a copy opens files of its own.

    Attributes:
        keys: The cameras' keys, in the order of the session.
        rates: Frames per second of each, exact.

    Args:
        session: The session.
        cameras: Names or keys of the cameras; None for all that are in colour.
        kind: ``float32`` or ``uint8``, for colours.
        open_videos: The most videos kept open.
        cache_mb: The most memory for their decoders, in megabytes.
    """

    def __init__(
        self, session: Session, cameras: Sequence[str] | None, kind: str, open_videos: int, cache_mb: int
    ) -> None:
        self._session, self._kind, self._limits = session, kind, (open_videos, cache_mb)
        known = {camera.key: camera for camera in session.cameras.values()}
        colors = [key for key, camera in known.items() if camera.codec != keys.DEPTH_CODEC]
        asked = colors if cameras is None else [_key(name) for name in v.texts(cameras, field="cameras")]
        if unknown := [key for key in asked if key not in known]:
            names = ", ".join(session.cameras) or "none"
            raise SettingsError.of("cameras", unknown[0].removeprefix(keys.IMAGES), f"the session has {names}")
        self.keys = tuple(key for key in known if key in asked)
        self.rates: dict[str, Fraction] = {key: known[key].rate for key in self.keys}
        depths = (key for key in self.keys if known[key].codec == keys.DEPTH_CODEC)
        self._scales = {key: self._scale(key) for key in depths}
        self._videos = VideoPool(open_videos, cache_mb)

    def _scale(self, key: str) -> float:
        scale = scale_of(self._session.features[key])
        if scale is None:
            name = key.removeprefix(keys.IMAGES)
            raise SettingsError.of("cameras", name, "the session does not say what its codes are; leave it out")
        return scale

    def __reduce__(self) -> tuple[type[Film], tuple[Any, ...]]:
        """Pickle what it is made of, and no open file."""
        return Film, (self._session, self.keys, self._kind, *self._limits)

    def key_of(self, name: str) -> str | None:
        """Return the key of one of its cameras, by name or key; None if it has none such."""
        return _key(name) if _key(name) in self.keys else None

    def pictures(self, episode: int, key: str, frames: Sequence[int], least: int) -> NDArray[Any]:
        """Decode frames of an episode.

        Args:
            episode: Its number.
            key: The camera.
            frames: Their indices.
            least: How many frames the video must have, for each row to have its own.

        Returns:
            Shape ``(frames, channels, height, width)``: colours as asked for, or metres, float32.

        Raises:
            FormatError: If there is no video, or it is broken, too short, or of another size than is declared.
        """
        files, camera = self._session, self._session.cameras[key.removeprefix(keys.IMAGES)]
        is_depth = key in self._scales
        try:
            path = files.episode(episode).video_path(key)
            reader = self._videos.borrow(path, lambda: None, _CODES if is_depth else "rgb24")
            said = (len(reader) >= least, reader.info.width, reader.info.height)
            if said != (True, camera.width, camera.height):
                reader.close()
                size = f"{len(reader)} frames of {said[1]}x{said[2]}"
                raise FormatError(f"{path}: {size}, expected {least} or more of {camera.width}x{camera.height}")
            decoded = self._videos.read(reader, frames)
        except VideoError as error:
            raise FormatError(str(error)) from error
        if is_depth:
            return (np.stack(decoded)[:, None] * np.float64(self._scales[key])).astype(np.float32)
        return self._as_asked(decoded)

    def _as_asked(self, decoded: Sequence[NDArray[np.uint8]]) -> NDArray[Any]:
        found = np.empty((len(decoded), 3, *decoded[0].shape[:2]), self._kind)
        for picture, one in zip(found, decoded, strict=True):
            channels = one.transpose(2, 0, 1)
            if self._kind == "float32":
                np.divide(channels, np.float32(255), out=picture)
            else:
                picture[...] = channels
        return found

    def close(self) -> None:
        """Close the videos that are not in use."""
        self._videos.close()


def _key(name: str) -> str:
    return name if name.startswith(keys.IMAGES) else keys.IMAGES + name
