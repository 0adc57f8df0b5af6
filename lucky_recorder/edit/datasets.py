"""koyu datasets become new datasets: merged, selected, split, with a task called otherwise. No bundle is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lucky_recorder.edit import sql
from lucky_recorder.edit.numbers import listed
from lucky_recorder.edit.pick import OnEpisode, named_once
from lucky_recorder.edit.shaped import Shaped
from lucky_recorder.edit.shares import after, folders_of, shared_out, shares_of
from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.lazy import lazy
from lucky_recorder.settings import validators as v

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble_bundles, bundled
    from lucky_recorder.edit.assemble_bundles import DatasetAssembly
    from lucky_recorder.edit.bundled import Bundled
else:
    # They import av, and `import *` is to be quick.
    assemble_bundles = lazy("lucky_recorder.edit.assemble_bundles")
    bundled = lazy("lucky_recorder.edit.bundled")

__all__ = ["delete", "merge", "rename_task", "select", "split", "trim"]


def merge(
    datasets: Iterable[str | Path],
    output: str | Path,
    *,
    name: str | None = None,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write all bundles of several datasets as one new dataset, in their order.

    Bundles are as they were, with their ids; their files are linked, or copied where links fail. One that several
    datasets have, the same to the last byte, is taken once. Overlays of one name and kind become one.

    Args:
        datasets: The datasets' folders.
        output: The new dataset's folder; there must be nothing of that name.
        name: The new dataset's name; by default that of its folder.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are done, and how many there are.

    Raises:
        SettingsError: If a dataset is named twice, there is nothing to write, ``output`` is there already, or its name
            is none of a dataset.
        FormatError: If a dataset cannot be read, two do not fit into one, or two have different bundles of one id:
            names them, and every difference.
        StorageError: If a dataset is being written, or the file system refuses. Whatever is raised, nothing is left of
            the new dataset.
    """
    sources = [bundled.Bundled(path) for path in named_once(datasets, "datasets")]
    picks = [assemble_bundles.BundlePick(source, number) for source in sources for number in range(len(source))]
    return _made(assemble_bundles.plan_dataset(picks, Path(output), name), len(picks), dry_run, on_episode)


def select(
    dataset: str | Path,
    output: str | Path,
    *,
    success_only: bool = False,
    tasks: Iterable[str] | None = None,
    episodes: str | Iterable[int] | None = None,
    min_length: int | None = None,
    where: str | None = None,
    name: str | None = None,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write those of a dataset's bundles as a new dataset that meet every condition, in their order.

    Args:
        dataset: The dataset's folder.
        output: The new dataset's folder; there must be nothing of that name.
        success_only: Only those with a reward of 0.5 or more. One without a reward has not succeeded.
        tasks: Only those in which one of these tasks occurs, by description.
        episodes: Only these, by their place in the manifest: ``"0:40,52"``, an end is left out, or the numbers.
        min_length: Only those of at least so many rows.
        where: Only those of which this SQL expression is true. Its names are ``episode_index``, ``id``, ``length``,
            ``success``, and what ``episode.json`` says: ``task``, ``task_description``, ``reward``, ``fps``,
            ``record_hz``, ``recorded_at``, ``collection_mode``, ``source_run_id``, ``source_checkpoint``,
            ``policy_name``, ``robot``, ``dataset``, ``seed``, ``end_reason``, and ``annotations`` as a text of JSON;
            ``pip install "lucky-recorder[sql]"``.
        name: As for `merge`.
        dry_run: As for `merge`.
        on_episode: As for `merge`.

    Raises:
        SettingsError: If a condition names what is not there, or no episode meets them all; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
    """
    source = bundled.Bundled(dataset)
    known = source.episodes()
    chosen = set(range(len(known)))
    if episodes is not None:
        chosen &= listed(source.path, chosen, episodes)
    if success_only:
        chosen &= {e.number for e in known if e.success}
    if tasks is not None:
        chosen &= _of_tasks(source, known, tasks)
    if min_length is not None:
        chosen &= {e.number for e in known if e.length >= min_length}
    if where is not None:
        chosen &= sql.where(bundled.table_of(known), where)
    if not chosen:
        raise SettingsError(f"select: none of the {len(known)} episodes of {source.path} meets every condition")
    return _made(_planned(source, chosen, output, name), len(source), dry_run, on_episode)


def _of_tasks(source: Bundled, known: Iterable[bundled.Known], tasks: Iterable[str]) -> set[int]:
    wanted = [tasks] if isinstance(tasks, str) else list(tasks)
    _refuse_unknown("tasks", source, known, wanted)
    return {e.number for e in known if not set(wanted).isdisjoint(e.tasks)}


def _refuse_unknown(field: str, source: Bundled, known: Iterable[bundled.Known], tasks: Iterable[str]) -> None:
    there = dict.fromkeys(task for episode in known for task in episode.tasks)
    if unknown := [task for task in tasks if task not in there]:
        remedy = f"{source.path} has no such task; it has {shown([*there])}"
        raise SettingsError.of(field, unknown[0], remedy)


def delete(
    dataset: str | Path,
    output: str | Path,
    *,
    episodes: str | Iterable[int],
    name: str | None = None,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write a dataset's bundles but for some as a new dataset, in their order; the dataset itself stays as it is.

    Args:
        dataset: The dataset's folder.
        output: The new dataset's folder; there must be nothing of that name.
        episodes: Those that are left out, by their place in the manifest; as for `select`.
        name: As for `merge`.
        dry_run: As for `merge`.
        on_episode: As for `merge`.

    Raises:
        SettingsError: If one of them is not there, or no episode is left; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
    """
    source = bundled.Bundled(dataset)
    kept = set(range(len(source))) - listed(source.path, range(len(source)), episodes)
    if not kept:
        raise SettingsError.of("episodes", episodes, f"these are all that {source.path} has; nothing is left")
    return _made(_planned(source, kept, output, name), len(source), dry_run, on_episode)


def split(
    dataset: str | Path,
    parts: Mapping[str, float],
    *,
    output: str | Path | Mapping[str, str | Path],
    seed: int = 0,
    by_task: bool = False,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> dict[str, Shaped]:
    """Share a dataset's bundles out among several new datasets: each is in one of them, in the dataset's order.

    Which episode comes where follows from the seed and its place in the manifest alone, as of a session's episodes.

    Args:
        dataset: The dataset's folder.
        parts: How much of the episodes each part is to have, by its name; together 1.
        output: The folder in which each part is a dataset of its name; or each one's own folder, by name.
        seed: Another one shares them out in another way.
        by_task: Share out the episodes of each task by themselves, so that every part has its share of each.
        dry_run: As for `merge`.
        on_episode: As for `merge`.

    Returns:
        What was made of each part, by its name, which is also the dataset's.

    Raises:
        SettingsError: If the parts are not 1 together, or one would have no episode; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`. Parts that were whole before stay.
    """
    source = bundled.Bundled(dataset)
    shares = shares_of(parts)
    folders = folders_of(shares, output)
    tasks = [e.tasks for e in source.episodes()] if by_task else [()] * len(source)
    chosen = shared_out(enumerate(tasks), shares, seed)
    # All is refused before the first is written.
    planned = {part: _planned(source, chosen[part], folders[part], part) for part in shares}
    made, done = {}, 0
    for part, one in planned.items():
        made[part] = _made(one, len(source), dry_run, after(done, len(source), on_episode))
        done += one.episodes
    return made


def rename_task(
    dataset: str | Path,
    output: str | Path,
    old: str,
    new: str,
    *,
    name: str | None = None,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write a dataset's bundles as a new dataset in which a task has another description.

    Bundles that have the task get a sidecar with the new description, and the short name that follows from it, also
    where an episode goes over to the task later. They keep their ids: rows and videos are the same, and linked. The
    bundles of the dataset itself are not touched.

    Args:
        dataset: The dataset's folder.
        output: The new dataset's folder; there must be nothing of that name.
        old: The description of the task.
        new: What it becomes. Where there is such a task already, the two become one.
        name: As for `merge`.
        dry_run: As for `merge`.
        on_episode: As for `merge`.

    Raises:
        SettingsError: If there is no such task, or ``new`` is no description; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
    """
    source = bundled.Bundled(dataset)
    _refuse_unknown("old", source, source.episodes(), [old])
    if v.text(new, field="new") == old:
        raise SettingsError.of("new", new, "give another description")
    planned = _planned(source, range(len(source)), output, name, {old: new})
    return _made(planned, len(source), dry_run, on_episode)


def trim(dataset: str | Path, *_: object, **__: object) -> Shaped:
    """Refuse to cut rows off the episodes of a dataset.

    Raises:
        SettingsError: Always; says what to do.
    """
    raise SettingsError.of(
        "session",
        str(dataset),
        "is a koyu dataset: a bundle is immutable, and one that was cut would be another under the same id; trim the "
        "session, and convert that: `lucky-recorder convert SESSION --koyu DATASET`",
    )


def _planned(
    source: Bundled,
    chosen: Collection[int],
    output: str | Path,
    name: str | None,
    rename: Mapping[str, str] | None = None,
) -> DatasetAssembly:
    picks = [assemble_bundles.BundlePick(source, number) for number in sorted(chosen)]
    return assemble_bundles.plan_dataset(picks, Path(output), name, rename=rename)


def _made(planned: DatasetAssembly, there: int, dry_run: bool, on_episode: OnEpisode | None) -> Shaped:
    if not dry_run:
        planned.write(on_episode)
    return Shaped(planned.target, planned.episodes, planned.rows, there - planned.episodes)
