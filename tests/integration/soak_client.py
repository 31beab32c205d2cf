"""README's loop as a process of its own, which tells every second how far it is.

python -m tests.integration.soak_client URL DATABASE FILE:OFFSET POSITION_FILE STATUS_FILE LAST_FILE
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import replica_client as rc

_BUCKETS = 20_000
_EVERY = 1.0


class Lags:
    """Lags of a second in milliseconds, in memory that does not grow."""

    def __init__(self) -> None:
        self._counts = array.array("L", bytes(8 * _BUCKETS))
        self._total = 0

    def add(self, seconds: float) -> None:
        """One more."""
        self._counts[min(_BUCKETS - 1, max(0, int(seconds * 1000)))] += 1
        self._total += 1

    def taken(self) -> tuple[int, int, int]:
        """Half of them are below, 99 of 100 are, all are; then they are forgotten."""
        wanted = [self._total // 2, self._total * 99 // 100, self._total - 1]
        found, seen = [], 0
        for at, count in enumerate(self._counts):
            seen += count
            while wanted and seen > wanted[0]:
                found.append(at)
                del wanted[0]
            if not wanted:
                break
        for at in range(_BUCKETS):
            self._counts[at] = 0
        self._total = 0
        return (found[0], found[1], found[2]) if len(found) == 3 else (0, 0, 0)


async def follow(
    url: str, database: str, start: str, store: Path, status: Path, number_file: Path
) -> None:
    """Follow for ever; what comes must be every row of the table ``t``, once and in order.

    The number of the row that came last stands in ``number_file`` before it is acknowledged.
    """
    numbers = os.open(number_file, os.O_WRONLY | os.O_CREAT)
    lags, stated = Lags(), time.monotonic()
    first = last = changes = 0
    stream = rc.connect(url, tables=[f"{database}.*"], start=start, position_store=store)
    async with stream:
        async for transaction in stream.transactions():
            now = time.time()
            for change in transaction.changes:
                changes += 1
                if change.table != "t" or change.kind != "insert":
                    continue
                number = change.after["id"]
                if first and number != last + 1:
                    raise AssertionError(f"{number} came behind {last}")
                first, last = first or number, number
                lags.add(now - change.after["at"])
            if last:
                os.pwrite(numbers, last.to_bytes(8, "little"), 0)
            await stream.acknowledge(transaction.position)
            if time.monotonic() - stated >= _EVERY:
                stated = time.monotonic()
                said = {
                    "first": first,
                    "last": last,
                    "changes": changes,
                    "lags": lags.taken(),
                    "connections": stream.generation,
                    "tables": len(stream.history.known_tables(database)),
                }
                temporary = status.with_suffix(".tmp")
                temporary.write_text(json.dumps(said), encoding="ascii")
                os.replace(temporary, status)


async def main(*arguments: Any) -> None:
    """Follow until SIGTERM."""
    work = asyncio.ensure_future(follow(*arguments))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], *map(Path, sys.argv[4:7])))
