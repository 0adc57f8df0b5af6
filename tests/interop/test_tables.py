"""Other people's readers of Parquet read the rows that pyarrow reads."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.interop.conftest import Truth

LOAD_DATASET = """
import json, sys
from datasets import load_dataset
rows = load_dataset("parquet", data_files=sys.argv[2:], cache_dir=sys.argv[1], split="train")
print(json.dumps(rows.to_dict()))
"""


def read_hugging_face(files: list[str], cache: Path) -> dict[str, list]:
    """Read in a process of its own: the library warns, and leaves things running."""
    if importlib.util.find_spec("datasets") is None:
        pytest.skip("pip install 'lucky-recorder[interop]'")
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(cache), "HOME": str(cache)}
    command = [sys.executable, "-c", LOAD_DATASET, str(cache), *files]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def read_pandas(files: list[str], cache: Path) -> dict[str, list]:
    del cache
    return pd.concat(pd.read_parquet(file) for file in files).to_dict("list")


def read_polars(files: list[str], cache: Path) -> dict[str, list]:
    del cache
    polars = pytest.importorskip("polars", reason="pip install 'lucky-recorder[interop]'")
    return polars.read_parquet(files, hive_partitioning=False).to_dict(as_series=False)


def read_duckdb(files: list[str], cache: Path) -> dict[str, list]:
    del cache
    duckdb = pytest.importorskip("duckdb", reason="pip install 'lucky-recorder[interop]'")
    with duckdb.connect() as connection:
        found = connection.execute("select * from read_parquet(?)", [files])
        names, rows = [column[0] for column in found.description], found.fetchall()
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


READERS = {"datasets": read_hugging_face, "pandas": read_pandas, "polars": read_polars, "duckdb": read_duckdb}


@pytest.fixture(params=["cubes", "pendulum"])
def truth(request: pytest.FixtureRequest) -> Truth:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("reader", READERS)
def test_all_rows_are_read(reader: str, truth: Truth, tmp_path: Path) -> None:
    files = [str(p) for p in sorted(truth.path.glob("data/*/*.parquet"))]
    found = READERS[reader](files, tmp_path)
    assert list(found) == truth.table.column_names
    for name, values in truth.rows.items():
        # An array of arrays, as pandas has lists, is one array of them all once it is stacked.
        read = np.array([np.array(value).tolist() for value in found[name]])
        assert read.dtype.kind == values.dtype.kind
        np.testing.assert_array_equal(read, values, err_msg=name)


@pytest.mark.parametrize("reader", READERS)
def test_episodes_are_read(reader: str, truth: Truth, tmp_path: Path) -> None:
    files = [str(p) for p in sorted(truth.path.glob("meta/episodes/*/*.parquet"))]
    found = READERS[reader](files, tmp_path)
    assert found["episode_index"] == list(range(len(truth.session)))
    expected = truth.session.episodes.to_pydict()
    for name, values in expected.items():
        # pandas has NaN where there is no text.
        assert [list(v) if name == "tasks" else None if v != v else v for v in found[name]] == values


def test_polars_and_duckdb_find_the_files_by_themselves(truth: Truth) -> None:
    """A pattern is all they need: no folder is taken for a column."""
    polars = pytest.importorskip("polars", reason="pip install 'lucky-recorder[interop]'")
    duckdb = pytest.importorskip("duckdb", reason="pip install 'lucky-recorder[interop]'")
    pattern = f"{truth.path}/data/*/*.parquet"
    scanned = polars.scan_parquet(pattern).select("index", "frame_index").collect()
    assert scanned["index"].to_list() == truth.rows["index"].tolist()
    with duckdb.connect() as connection:
        query = f"select max(timestamp), count(*) from '{pattern}' where episode_index = 3"
        ((last, count),) = connection.execute(query).fetchall()
    mine = truth.rows_of([3])
    assert (last, count) == (truth.rows["timestamp"][mine].max(), len(mine))


def test_pandas_reads_the_tasks_and_joins_them(truth: Truth) -> None:
    tasks = pd.read_parquet(truth.path / "meta/tasks.parquet")
    described = tasks.reset_index().set_index("task_index").iloc[:, 0].loc[truth.rows["task_index"]]
    assert described.tolist() == truth.tasks.tolist()
