"""A SPARK_HOME from which Python workers load PySpark as byte code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replica_client.lake.spark.spark_session import quick_workers

_LOADED = "import pyspark, py4j; print(*(type(m.__loader__).__name__ + ' ' + m.__file__ for m in (pyspark, py4j)))"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path


def test_workers_load_files_and_not_an_archive(cache):
    for _ in range(2):  # made, and found
        with quick_workers():
            home = Path(os.environ["SPARK_HOME"])
            assert home.is_relative_to(cache) and (home / "jars").is_dir()
            assert os.access(home / "bin" / "spark-submit", os.X_OK)
        assert "SPARK_HOME" not in os.environ
    # As Spark has it: these are in front of whatever else there is.
    archives = sorted(home.joinpath("python", "lib").glob("*.zip"))
    assert [archive.name for archive in archives][-1] == "pyspark.zip" and len(archives) == 2
    found = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, archives))},
    )  # fmt: skip
    assert found.stdout.count("SourceFileLoader") == 2
    assert found.stdout.count(str(home)) == 2


def test_a_home_that_is_set_stays(cache, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with quick_workers():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark" and not list(cache.iterdir())


def test_a_cache_that_cannot_be_written_is_passed_over(cache, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with quick_workers():
        assert "SPARK_HOME" not in os.environ
