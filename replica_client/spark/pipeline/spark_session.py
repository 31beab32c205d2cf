"""The Spark session of our own commands."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from replica_client.errors import ConfigError
from replica_client.spark.pipeline.java import java_home
from replica_client.spark.pipeline.spark_home import quick_workers

DEFAULT_MASTER = "local[*]"
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"
"""No row passes through Java here, and compiling its code a second time takes a third of its CPU time."""

_SESSION = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "8"}


def make_session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> SparkSession:
    """Return a session that is quiet, works in UTC, and whose workers run this Python.

    Args:
        name: of the application.
        master: e.g. ``local[4]``, ``spark://host:7077``, or ``sc://host:15002`` of a Spark Connect
            server; None: as spark-submit says, else all cores of this machine.
        settings: Spark's own settings; they come last.
        verbose: show Spark's warnings and errors.

    Raises:
        ConfigError: no Java, or Spark does not start.
    """
    remote = os.environ.get("SPARK_REMOTE") if master is None else master
    if remote is not None and remote.startswith("sc://"):
        return _connected(remote, settings or {})
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # Workers would else take the python3 of the PATH, and not find this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    conf = SparkConf().setAppName(name)
    if master is not None or not conf.contains("spark.master"):
        conf.setMaster(master or DEFAULT_MASTER)
    given = str(conf.get("spark.master"))
    local = given.startswith("local")
    alone = given == "local" or given.startswith("local[")
    if local and "SPARK_LOCAL_IP" not in os.environ:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_SESSION,
        # A busy machine may need longer than the 15 s of Spark to start a Python worker.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), "replica-client-warehouse")),
        "spark.log.level": "WARN" if verbose else "OFF",
        **({"spark.driver.defaultJavaOptions": _JAVA_OPTIONS} if local else {}),
        **(settings or {}),
    }.items():
        conf.set(key, value)
    with tempfile.TemporaryFile() as said:
        try:
            gateway = None
            if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
                # Java's standard error is read here, unless the user asked to see it.
                quiet = {} if verbose else {"stderr": said}
                with _signals_wait(), quick_workers() if alone else nullcontext():
                    gateway = launch_gateway(conf, quiet)  # type: ignore[no-untyped-call]
            if SparkContext._active_spark_context is None:
                SparkContext(conf=conf, gateway=gateway)
            return SparkSession.builder.getOrCreate()
        except (PySparkException, Py4JError, RuntimeError, OSError, ValueError) as error:
            text = " ".join(str(error).split())
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
            if lines:
                text += f" ({lines[0].strip()})"
            raise ConfigError(f"Spark does not start: {text[:400]}") from None


def _connected(remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of a Spark Connect server, which has this package installed."""
    try:
        session = SparkSession.builder.remote(remote).getOrCreate()
        for key, value in {**_SESSION, **settings}.items():
            # What a server was started with is its own matter.
            if session.conf.isModifiable(key) or key.startswith("spark.sql."):
                session.conf.set(key, value)
        return session
    except (PySparkException, ImportError, OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"Spark Connect does not start: {text[:400]}") from None


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Delay interrupts until the end of the block: one during the launch would leave Java running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt
