"""Failures of Spark in a run, by the texts that Spark gave."""

import pytest

from replica_client.errors import BinlogPurgedError, ConfigError, ConnectError, ServerError
from replica_client.lake.pipeline.workers import (
    PipelineError,
    PurgedRangeError,
    cause_of,
    is_transient,
)

_TASK = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File …\n"
)
_VERSIONS = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
    "version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor versions."
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{_TASK}ModuleNotFoundError: No module named 'replica_client'\n", "lacks replica_client"),
        (f"{_TASK}ModuleNotFoundError: No module named 'pyarrow'\n", "lacks pyarrow: install"),
        (f"{_TASK}{_VERSIONS}", "the workers' Python is 3.9, the driver's 3.11"),
        ('java.io.IOException: Cannot run program "/no/python3": error=2', "/no/python3 is not"),
        ("Answer from Java side is empty", "Spark's Java ended"),
        ("[Errno 111] Connection refused", "Spark's Java ended"),
        ("Job aborted: SparkContext was shut down", "Spark's Java ended"),
    ],
)
def test_a_failure_of_spark_is_one_sentence(text, words):
    found = cause_of(RuntimeError(text))
    assert isinstance(found, PipelineError)
    assert words in str(found)
    assert "\n" not in str(found)
    assert not is_transient(RuntimeError(text))


def test_our_own_error_inside():
    text = f"{_TASK}replica_client.errors.ConnectError: db1: no answer\n\tat org.apache…"
    assert str(cause_of(RuntimeError(text))) == "db1: no answer"
    assert is_transient(RuntimeError(text))
    wrong = cause_of(RuntimeError(f"{_TASK}replica_client.errors.ConfigError: option url: no\n"))
    assert isinstance(wrong, ConfigError)
    assert is_transient(RuntimeError("Python worker failed to connect back."))


def test_errors_of_this_process():
    assert is_transient(ConnectError("db1: no answer"))
    assert is_transient(ServerError(1053, "08S01", "Server shutdown in progress"))
    assert not is_transient(ServerError(1146, "42S02", "Table 't' doesn't exist"))
    purged = BinlogPurgedError(1236, "HY000", "purged", "", missing="a:4…b:4")
    assert isinstance(cause_of(purged), PurgedRangeError)
    missing = ConfigError("x")
    assert cause_of(missing) is missing
