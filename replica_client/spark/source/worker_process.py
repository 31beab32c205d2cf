"""The clean-up of a Python worker of Spark between two tasks."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Exclude all current objects from garbage collection, once in a process (``gc.freeze``).

    Spark's workers collect all garbage after each task. That takes 25 ms and more with the modules that
    are loaded here, which never go, as long as a task that reads a few MB; it takes none afterwards.
    """
    gc.collect()
    gc.freeze()
