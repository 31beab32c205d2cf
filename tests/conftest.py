"""What every test run needs: the implementation that was asked for, and the real servers."""

import functools
import importlib.util
import os
import sqlite3
import sys
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import replica_client
from replica_client import _compiled
from replica_client.errors import TRACEBACKS_VARIABLE

# A busy machine is no fault of an example's.
_ANY_LOAD = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any load", _ANY_LOAD)
settings.register_profile("quick", _ANY_LOAD, max_examples=20)
settings.load_profile("any load")

# Programs that tests start say nothing about it, where no compiler is.
if not replica_client.compiled():
    os.environ.setdefault(_compiled.VARIABLE, "python")


# What fails is looked for in the frames of this package, too.
os.environ.setdefault(TRACEBACKS_VARIABLE, "full")


class _WatchedConnection(sqlite3.Connection):
    """Warns when it was not closed, which Python 3.13 and newer do by themselves."""

    _is_open = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_open = True

    def close(self) -> None:
        super().close()
        self._is_open = False

    def __del__(self) -> None:
        if self._is_open:
            warnings.warn(f"unclosed database in {self!r}", ResourceWarning, stacklevel=1)


if sys.version_info < (3, 13):
    sqlite3.connect = functools.partial(sqlite3.connect, factory=_WatchedConnection)

# Fixtures of the real servers.
_plugin = Path(__file__).with_name("servers") / "plugin.py"
pytest_plugins = ["tests.object_stores"]
if _plugin.exists():
    pytest_plugins.append("tests.servers.plugin")


def pytest_report_header() -> list[str]:
    form = "compiled" if replica_client.compiled() else "python"
    reason = _compiled.why_not_compiled()
    if form == "python" and not os.environ.get(_compiled.VARIABLE) and reason:
        form += f" ({reason})"
    return [f"replica_client {replica_client.__version__}, implementation: {form}"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Workers of pytest-xdist send what was captured as UTF-8, which has no lone surrogates."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def pytest_sessionstart() -> None:
    """Refuse to run when the modules that were loaded are not the ones that were asked for."""
    wanted = os.environ.get(_compiled.VARIABLE) or (
        "compiled" if replica_client.compiled() else "python"
    )
    for name in _compiled.COMPILED_MODULES:
        spec = importlib.util.find_spec(name)
        found = "python" if spec and spec.origin and spec.origin.endswith(".py") else "compiled"
        if found != wanted:
            pytest.exit(f"{name} runs as {found}, {wanted} was asked for", returncode=3)
