"""A plugin of pytest: while tests are collected in silence, it says every few seconds that this goes on.

python -m pytest -p tests.reading_progress …
"""

from __future__ import annotations

import sys
import threading
import time

import pytest

SILENCE = 3.0

_done = threading.Event()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch the time, but not in each worker of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        threading.Thread(target=_tell, args=(time.monotonic(),), daemon=True).start()


def pytest_collection_finish() -> None:
    _done.set()


def pytest_xdist_node_collection_finished() -> None:
    _done.set()


def pytest_unconfigure() -> None:
    _done.set()


def _tell(began: float) -> None:
    while not _done.wait(SILENCE):
        seconds = time.monotonic() - began
        print(f"test: still reading tests ({seconds:.0f} s)", file=sys.__stderr__, flush=True)
