"""One Spark session per module: local[2], or what the module's MASTER says."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.servers.plugin import in_ci, unavailable

SPARK_TIMEOUT = 600
PACKAGES = ("pyspark", "deltalake", "pyarrow")
_JVM_FIXTURES = {"spark", "cluster"}


def pytest_configure() -> None:
    """In CI the packages that modules here are skipped without are there."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing and in_ci():
        raise pytest.UsageError(f"CI should have {', '.join(missing)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "spark":
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT), append=False)


@pytest.fixture(autouse=True, scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Caches of these tests alone, and Java processes that do not live long enough to optimize."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPLICA_CLIENT_CACHE", str(tmp_path_factory.mktemp("cache")))
        # Halves the CPU time of starting Spark and of a dozen small queries.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


def _session(master: str) -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from replica_client.errors import ConfigError
    from replica_client.lake.spark.spark_session import make_session

    try:
        session = make_session("tests", master=master, settings={"spark.default.parallelism": "2"})
    except ConfigError as error:
        unavailable(error)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    yield from _session("local[2]")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two executors, each a JVM of its own."""
    yield from _session("local-cluster[2,1,1024]")
