"""Nothing here is collected where deltalake is not installed; PySpark is not needed."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("deltalake") else ["test_*.py"]


@pytest.fixture
def log(tmp_path):
    """A change log that a test writes by hand."""
    from tests.unit.lake.lakes import HandLog

    return HandLog(tmp_path / "change_log")


@pytest.fixture
def lake(tmp_path):
    """Where a test's lake is."""
    return tmp_path / "lake"
