"""Reads a file's rows through the stream of an original, or of the shim.

Tells their number, the CPU seconds of reading, and those of start and imports.

stream_alone.py STREAM HOST PORT USER PASSWORD FILE ROWS
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

STREAM, HOST, PORT, USER, PASSWORD, FILE, ROWS = sys.argv[1:]


def pymysqlreplication() -> Callable[[], int]:
    """Counts the rows that python-mysql-replication, or a copy of it, gives."""
    package = import_module(STREAM)
    events = import_module(f"{STREAM}.row_event")

    def run() -> int:
        stream = package.BinLogStreamReader(
            {"host": HOST, "port": int(PORT), "user": USER, "passwd": PASSWORD},
            7773,
            log_file=FILE,
            log_pos=4,
            resume_stream=True,
            only_events=[events.WriteRowsEvent, events.UpdateRowsEvent, events.DeleteRowsEvent],
        )
        return sum(len(event.rows) for event in stream)

    return run


def asyncmy() -> Callable[[], int]:
    """Counts the rows that asyncmy gives."""
    import asyncmy as driver
    from asyncmy.replication import BinLogStream
    from asyncmy.replication.row_events import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    async def run() -> int:
        position: dict[str, Any] = {
            "host": HOST,
            "port": int(PORT),
            "user": USER,
            "password": PASSWORD,
        }
        one, two = await driver.connect(**position), await driver.connect(**position)
        stream = BinLogStream(
            one,
            two,
            7774,
            master_log_file=FILE,
            master_log_position=4,
            resume_stream=True,
            blocking=True,
            only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        )
        count = 0
        async for event in stream:
            count += len(event.rows)
            if count >= int(ROWS):
                break
        await stream.close()
        return count

    return lambda: asyncio.run(run())


reader = asyncmy() if STREAM == "asyncmy" else pymysqlreplication()
before = time.process_time()
rows = reader()
print(rows, time.process_time() - before, before)
