"""Files for relays, and waiting for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.source.binlogs import BinlogMaker


def relay_files(directory: Path, count: int, size: int) -> list[Path]:
    """Files of one transaction of a size each, every one but the last ended by a ROTATE."""
    paths = []
    for number in range(1, count + 1):
        maker = BinlogMaker(first=number)
        maker.transaction(size)
        if number < count:
            maker.rotate(f"binlog.{number + 1:06}")
        paths.append(maker.save(directory / f"binlog.{number:06}"))
    return paths


async def until(condition: Callable[[], object]) -> None:
    """Wait, within a generous bound."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
