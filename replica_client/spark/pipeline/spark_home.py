"""A SPARK_HOME whose Python workers load PySpark as byte code.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` first on the PYTHONPATH of its workers. The
archive of PyPI's PySpark has no byte code, so each new kind of worker compiles PySpark, which takes
a second of CPU time, and a run has ten of them. Here that name is a directory with the installed
package, which has its byte code.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import py4j
import pyspark

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
