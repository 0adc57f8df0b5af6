"""Drawing a session afterwards: of the states that it kept, by one process or by several.

What is drawn waits in ``<output>.shards``, and whoever was interrupted goes on there. In the end the session is made of
the old one's data, which is linked, and of what was drawn.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import attrs
import cloudpickle

from lucky_recorder.edit.pick import OnEpisode, every, opened
from lucky_recorder.edit.shaped import Shaped
from lucky_recorder.episode import keys
from lucky_recorder.episode.schema import Stream
from lucky_recorder.errors import FormatError, LuckyRecorderError, SettingsError, StorageError, extended
from lucky_recorder.lazy import lazy
from lucky_recorder.notices import tell
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.filming import Stage
from lucky_recorder.recorder.trail import CALLED, MODEL_CHANGED, MODEL_REPLACED
from lucky_recorder.rollouts import gather
from lucky_recorder.rollouts.drawing import Drawing, drawn_in, stage_of
from lucky_recorder.rollouts.pieces import Piece
from lucky_recorder.rollouts.workers import Workers
from lucky_recorder.session import later, layout
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.kept_states import States
from lucky_recorder.session.reader import Session
from lucky_recorder.session.recovery import is_blank
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.deferred import drawn_by, read_drawn_by
from lucky_recorder.settings.fields import DrawnFields
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.storage.lock import refuse_held, take_over
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import make_folder, write_json

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble, drawn
else:
    # They import av, and `import *` is to be quick.
    assemble, drawn = lazy("lucky_recorder.edit.assemble"), lazy("lucky_recorder.edit.drawn")

__all__ = ["render"]

logger = logging.getLogger("lucky_recorder")

_NOTE = "drawing.json"
_FIELDS = frozenset(DrawnFields.__annotations__)
_NAMED = 5


def render(
    session: str | Path,
    output: str | Path,
    *,
    workers: int = 1,
    allow_inexact: bool = False,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
    **fields: Unpack[DrawnFields],
) -> Shaped:
    """Draw a session's episodes of the states that it kept, and write a new session with these pictures and scans.

    The new session has all that the old one has, linked. A session that was recorded with ``render="deferred"`` says
    itself what is to be drawn, and comes out as if it had been drawn at once: the same bytes. Of every session that
    kept its states other cameras and lidars can be drawn; where the old one has streams of the same name, the new ones
    take their place.

    Where it is interrupted, or a worker dies, the same call goes on: no episode is drawn twice.

    Args:
        session: The session's folder. Its models are opened by MuJoCo, which trusts them: draw those of people whom you
            trust.
        output: The new session's folder; there must be nothing of that name.
        workers: How many processes draw.
        allow_inexact: Draw also episodes of which the states do not bring back the model; they are told of.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are drawn, and how many there are.
        **fields: What is drawn: fields of `RecorderSettings`. Where ``cameras`` or ``lidars`` are given, nothing else
            is; else what the session says.

    Raises:
        SettingsError: If nothing is to be drawn, or something that the model or the states do not have.
        FormatError: If an episode has no states, or they cannot bring its model back, or a file is broken.
        GLError: If no OpenGL context can be made.
        WorkerDiedError: If workers die again and again.
        StorageError: If the session is being written, or the file system refuses.

    Example:
        ```python
        lr.render("recorded", "drawn", workers=2)
        lr.render("recorded", "from-above", cameras=[{"name": "top", "width": 320, "height": 240}])
        ```
    """
    count = v.count(workers, field="workers")
    source, target = opened(session), Path(output)
    wanted = _wanted(source, fields)
    planned = assemble.plan(every(source), target)
    first = _refuse_inexact(source, wanted.settings, allow_inexact)
    stage = stage_of(wanted.settings, first, first.states())
    drawing = Drawing(source.path.resolve(), wanted.settings)
    if not dry_run:
        with _shards(drawing, target) as shards:
            places = _drawn(drawing, shards, source.episodes[keys.EPISODE_INDEX].to_pylist(), count, on_episode)
            joined = _joined(stage, wanted, places)
            assert planned.taken_over is not None
            made = joined.taken_over(planned.taken_over, planned.parts[0].source.schema)
            replace(planned, drawn=joined, taken_over=made).write(metadata_every=wanted.settings.metadata_every)
            shutil.rmtree(shards, ignore_errors=True)
    return Shaped(target, planned.episodes, planned.rows, 0)


class _Wanted(NamedTuple):
    """What is to be drawn.

    Attributes:
        settings: By which settings.
        calibration: What the session says of the streams' cameras; of others nothing is said.
    """

    settings: RecorderSettings
    calibration: Mapping[str, Mapping[str, Any]]


def _wanted(source: Session, fields: DrawnFields) -> _Wanted:
    for name, value in fields.items():
        if name not in _FIELDS:
            remedy = f"is no field of what is drawn; known: {', '.join(sorted(_FIELDS))}"
            raise SettingsError.of(name, value, remedy)
    where = source.path / layout.INFO_PATH
    said = later.read(source.info, where)
    known: dict[str, Any] = {} if said is None else dict(read_drawn_by(said.settings, str(where)))
    calibration = {} if said is None else said.calibration
    if fields.keys() & {"cameras", "lidars"}:
        known |= {"cameras": [], "lidars": [], "record_cameras": True, "record_color_video": True}
        known["record_masks"] = False
        calibration = {}
    settings = RecorderSettings.of({**known, **fields})
    if not (settings.recorded_cameras or settings.recorded_lidars):
        remedy = (
            "say what is to be drawn: cameras=[...] or lidars=[...]; a session recorded with render='deferred' says it"
        )
        raise SettingsError(f"{source.path}: {remedy}")
    _refuse_cameras(source, settings)
    # Rows are there already, and poses stand in them.
    cameras = [attrs.evolve(camera, record_pose=False) for camera in settings.cameras]
    return _Wanted(attrs.evolve(settings, mode="custom", record_data=False, cameras=cameras), calibration)


def _refuse_cameras(source: Session, settings: RecorderSettings) -> None:
    for camera in settings.recorded_cameras:
        field = f"camera {camera.name!r}: "
        if camera.source == "render":
            remedy = "the environment draws it, and no state brings that back; name a camera of the model"
            raise SettingsError.of(f"{field}source", camera.source, remedy)
        if camera.record_pose and keys.pose_key(camera.name) not in source.features:
            remedy = "rows are as they were recorded, and have no pose of it; leave it out"
            raise SettingsError.of(f"{field}record_pose", True, remedy)


def _refuse_inexact(source: Session, settings: RecorderSettings, is_allowed: bool) -> Episode:
    """Refuse episodes that cannot be drawn, or not exactly; returns the first."""
    episodes = list(source)
    if lost := [e.index for e in episodes if not e.has_states]:
        remedy = "record with keep_states=True or render='deferred'"
        if len(lost) < len(episodes):
            remedy = "their model was replaced by one of other states; leave them out with `lucky-recorder delete`"
        raise FormatError(f"{source.path}: no states are kept of {_named(lost)}: {remedy}")
    inexact: dict[str, list[int]] = {}
    for episode in episodes:
        for lack in _lacks(episode.states(), settings):
            inexact.setdefault(lack, []).append(episode.index)
    told = "; ".join(f"{_named(numbers)}: {lack}" for lack, numbers in inexact.items())
    if told and not is_allowed:
        remedy = "leave them out with `lucky-recorder delete`, or say allow_inexact=True (--allow-inexact)"
        raise FormatError(f"{source.path}: the states do not bring back what was seen. {told}. {remedy}")
    if told:
        tell(f"{source.path}: drawn with the model of the first tick. {told}")
    return episodes[0]


def _lacks(kept: States, settings: RecorderSettings) -> Iterator[str]:
    """Say what the states of an episode lack of what is seen; how one follows from another is not seen."""
    # What user code computes is seen only in what MuJoCo computes of it.
    is_computed = any(camera.needs_forward for camera in settings.recorded_cameras)
    for lack in kept.not_brought_back:
        if lack in (MODEL_CHANGED, MODEL_REPLACED) or (lack.startswith(CALLED) and is_computed):
            yield lack


def _named(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED]))
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return f"episode{'s' if len(numbers) > 1 else ''} {shown}{more}"


# What is drawn waits in shards.


@contextlib.contextmanager
def _shards(drawing: Drawing, target: Path) -> Iterator[Path]:
    """Give the folder of the shards, which nobody else draws into; one that an interrupted call has left is the same.

    Raises:
        SettingsError: If something else was being drawn there.
        StorageError: If somebody draws there, or the file system refuses.
    """
    folder = target.with_name(target.name + layout.SHARDS)
    if not os.path.lexists(folder):
        make_folder(folder)
    lock = take_over(folder)
    try:
        # Outside of what follows: a folder that is not ours stays.
        _note(folder, drawing)
        with _removed_if_empty(folder):
            yield folder
    finally:
        if lock is not None:
            lock.release()


@contextlib.contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    """Leave nothing behind where nothing was drawn: another call may draw something else."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(LuckyRecorderError):  # what cannot be read may be something
            if not _found(folder):
                shutil.rmtree(folder, ignore_errors=True)
        raise


def _note(folder: Path, drawing: Drawing) -> None:
    """Note what is drawn in a folder, or compare it with what is noted."""
    note = {"session": str(drawing.session), "settings": drawn_by(drawing.settings)}
    known = None
    with contextlib.suppress(FormatError):
        known = Folder(folder).json(_NOTE)
    if known is None and not any(folder.iterdir()):
        write_json(folder / _NOTE, note)
    elif known is None:
        raise StorageError(f"{folder}: is there already, and nothing says what is drawn in it; call it otherwise")
    elif known != note:
        remedy = (
            f"{folder} holds what another call has drawn, of another session or otherwise; finish that, or remove it"
        )
        raise SettingsError.of("output", str(folder), remedy)


def _found(folder: Path) -> dict[int, drawn.Place]:
    """Return which episodes are drawn, and where."""
    found: dict[int, drawn.Place] = {}
    for shard in sorted(folder.glob(f"*/*/{keys.SESSIONS}/*")):
        if is_blank(shard):
            continue
        for episode, number in drawn_in(Session(shard)).items():
            found.setdefault(episode, drawn.Place(shard, number))
    return found


def _drawn(
    drawing: Drawing, folder: Path, episodes: Sequence[int], workers: int, on_episode: OnEpisode | None
) -> Mapping[int, drawn.Place]:
    """Draw the episodes that are not drawn yet; returns where each of them is."""
    for shard in folder.glob(f"*/*/{keys.SESSIONS}/*"):
        # A worker of a call that was killed goes on for some seconds.
        refuse_held(shard)
    places = _found(folder)
    todo = [episode for episode in episodes if episode not in places]
    done = len(places)

    def tell_one() -> None:
        nonlocal done
        done += 1
        if on_episode is not None:
            on_episode(done, len(episodes))

    run = folder / f"run-{sum(1 for _ in folder.glob('run-*')):03d}"
    try:
        if todo:
            make_folder(run)
            with exits.held_back():
                (_draw_here if min(workers, len(todo)) == 1 else _draw_together)(drawing, todo, run, workers, tell_one)
    except BaseException as error:
        count = len(_found(folder))
        told = f"{count} of {len(episodes)} episodes are drawn, in {folder}; the same call draws the others"
        if count and isinstance(error, LuckyRecorderError):
            raise extended(error, told) from error
        if count:
            logger.warning("broken off: %s", told)
        raise
    return _found(folder)


def _draw_here(drawing: Drawing, todo: Sequence[int], folder: Path, workers: int, tell_one: Callable[[], None]) -> None:
    bench = drawing.bench(folder / "000")
    try:
        for number, episode in enumerate(todo):
            bench.attempt(Piece(number, (episode,)), 0, _raise_held)
            tell_one()
    finally:
        bench.close()


def _raise_held() -> bool:
    exits.raise_held()
    return False


def _draw_together(
    drawing: Drawing, todo: Sequence[int], folder: Path, workers: int, tell_one: Callable[[], None]
) -> None:
    engine = Workers(cloudpickle.dumps(drawing), folder, min(workers, len(todo)))
    wanted = gather.Wanted(
        seed_of=todo.__getitem__,
        episodes=len(todo),
        is_picky=False,
        patience=len(todo) + 1,
        give_up=_give_up,
        notice=lambda attempt: tell_one(),
        what="episode",
    )
    try:
        failure = gather.run_to_end(gather.Gathering(engine, wanted), engine)
    except BaseException:  # somebody insists
        engine.kill()
        raise
    if failure is not None:
        raise failure


def _give_up(kept: int, fruitless: int) -> LuckyRecorderError:
    raise AssertionError


def _joined(stage: Stage, wanted: _Wanted, places: Mapping[int, drawn.Place]) -> drawn.Drawn:
    schema, settings = stage.source.schema, wanted.settings
    replaced = {
        camera.key_of(kind) for camera in settings.recorded_cameras for kind in ("color", "depth", "rgbd", "mask")
    }
    return drawn.Drawn([_as_said(s, wanted) for s in schema.streams], schema.scans, places, replaced)


def _as_said(stream: Stream, wanted: _Wanted) -> Stream:
    """Return a stream whose camera is described as it stood when the session began, where the session says that."""
    said = wanted.calibration.get(stream.key)
    return stream if said is None else replace(stream, info=dict(said), calibration={})
