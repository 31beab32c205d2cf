"""The Spark session of our own commands."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replica_client.errors import ConfigError
from replica_client.spark.java import java_home

DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "1g"

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %m%n
logger.all.name = org.apache
logger.all.level = {level}
"""


def make_session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> SparkSession:
    """A session that is quiet, reckons in UTC, and whose workers run this Python.

    Args:
        name: of the application.
        master: e.g. ``local[4]``, ``spark://host:7077``; None: as spark-submit says, else all cores
            of this machine.
        settings: Spark's own settings; they come last.
        verbose: show Spark's warnings and errors.

    Raises:
        ConfigError: no Java, or Spark does not start.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # Workers would else take the python3 of the PATH, and not find this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1" if _is_local(master) else "")
    if not os.environ["SPARK_LOCAL_IP"]:
        del os.environ["SPARK_LOCAL_IP"]
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.appName(name)
    if master is not None or "SPARK_MASTER" not in os.environ:
        builder = builder.master(master or DEFAULT_MASTER)
    log4j = _logging_file("warn" if verbose else "off")
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} -Dlog4j2.disable.jmx=true"
    # Kept off the driver's command line, these would come too late.
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f'--conf "spark.driver.extraJavaOptions={options}" '
        f"--driver-memory {DEFAULT_MEMORY} pyspark-shell"
    )
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir(), "replica-client-warehouse")),
        **(settings or {}),
    }.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"Spark does not start: {text[:300]}") from error
    session.sparkContext.setLogLevel("WARN" if verbose else "OFF")
    return session


def _is_local(master: str | None) -> bool:
    return (master or DEFAULT_MASTER).startswith("local")


def _logging_file(level: str) -> Path:
    file = Path(tempfile.mkdtemp(prefix="replica-client-spark-"), "log4j2.properties")
    file.write_text(_LOGGING.format(level=level))
    return file
