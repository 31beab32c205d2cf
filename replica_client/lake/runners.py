"""Runners that rewrite files."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from replica_client.lake.state_table import Runner, Work


def local_runner(threads: int = 2) -> Runner:
    """Return a runner that rewrites files in this process."""

    def run(works: Sequence[Work]) -> list[Any]:
        if len(works) < 2:
            return [work.run() for work in works]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run_work, works))

    return run


def run_work(work: Work) -> Any:
    """Run one piece of work; a module-level function, so that executors can import it."""
    return work.run()
