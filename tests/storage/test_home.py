from __future__ import annotations

from pathlib import Path

import pytest

from lucky_recorder.errors import StorageError
from lucky_recorder.storage.home import Home
from lucky_recorder.storage.lock import hold
from lucky_recorder.storage.write import make_folder, write_json


@pytest.mark.parametrize("has_lock", [True, False])
def test_a_folder_that_goes_is_noticed_and_not_made_anew(tmp_path: Path, has_lock: bool) -> None:
    folder = tmp_path / "written"
    folder.mkdir()
    lock = hold(folder) if has_lock else None
    home = Home(folder, lock)
    make_folder(folder / "part")
    home.check()
    folder.rename(tmp_path / "elsewhere")
    for act in (home.check, lambda: make_folder(folder / "a/b"), lambda: write_json(folder / "x.json", 1)):
        with pytest.raises(StorageError, match=f"{folder}: was moved or removed while it was recorded"):
            act()
    assert not folder.exists()
    # Another one under its name is not it.
    folder.mkdir()
    with pytest.raises(StorageError, match="was moved or removed"):
        home.check()
    (tmp_path / "elsewhere").rename(folder)
    home.check()
    home.leave()
    home.leave()
    folder.rename(tmp_path / "elsewhere")
    home.check()
    make_folder(folder)
    if lock is not None:
        lock.release()


def test_a_part_names_what_it_is_of(tmp_path: Path) -> None:
    (tmp_path / "set/part").mkdir(parents=True)
    home = Home(tmp_path / "set/part", None, tmp_path / "set")
    (tmp_path / "set").rename(tmp_path / "other")
    for act in (home.check, lambda: make_folder(tmp_path / "set/part/x")):
        with pytest.raises(StorageError, match=f"{tmp_path / 'set'}: was moved or removed"):
            act()
    home.leave()


def test_a_folder_that_may_not_be_looked_into_is_another_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path, None)

    def refuse(*where: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("lucky_recorder.storage.home.os.stat", refuse)
        with pytest.raises(StorageError, match="Permission denied"):
            home.check()
    home.leave()
