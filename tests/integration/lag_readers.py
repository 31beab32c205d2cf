"""A program that reads rows of :class:`~tests.integration.saving_proof.Writer` and says how old each was.

Run as ``lag_readers.py KIND URL DATABASE SECONDS``; it prints ``ready`` and, at the end, JSON. The kind
``python-mysql-replication`` needs that package and nothing of this one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from array import array
from urllib.parse import unquote, urlsplit

Found = tuple[array, float]


async def transactions(url: str, database: str, seconds: float) -> Found:
    """``connect().transactions()``, each acknowledged."""
    import replica_client as rc

    lags = array("d")
    async with rc.connect(url, tables=[f"{database}.t"], start="latest") as stream:
        print("ready", flush=True)
        begun, cpu = time.time(), time.process_time()
        async with asyncio.timeout(seconds + 30):
            async for transaction in stream.transactions():
                now = time.time()
                lags.extend(now - change.after["at"] for change in transaction.changes)
                await stream.acknowledge(transaction.position)
                if now - begun >= seconds:
                    break
        return lags, time.process_time() - cpu


async def batches(url: str, database: str, seconds: float) -> Found:
    """``connect().batches()`` with ``max_seconds=0.05``."""
    import replica_client as rc

    lags = array("d")
    async with rc.connect(url, tables=[f"{database}.t"], start="latest") as stream:
        print("ready", flush=True)
        begun, cpu = time.time(), time.process_time()
        async for batch in stream.batches(max_seconds=0.05):
            now = time.time()
            lags.extend(now - at for at in batch.column("at").to_pylist())
            await stream.acknowledge(stream.position)
            if now - begun >= seconds:
                break
        return lags, time.process_time() - cpu


def python_mysql_replication(url: str, database: str, seconds: float) -> Found:
    """``BinLogStreamReader``'s rows events."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import WriteRowsEvent

    parts, lags = urlsplit(url), array("d")
    stream = BinLogStreamReader(
        connection_settings={
            "host": parts.hostname,
            "port": parts.port,
            "user": parts.username,
            "passwd": unquote(parts.password or ""),
        },
        server_id=4711,
        blocking=True,
        resume_stream=False,
        only_events=[WriteRowsEvent],
        only_schemas=[database],
    )
    print("ready", flush=True)
    begun, cpu = 0.0, time.process_time()
    for event in stream:
        now = time.time()
        begun = begun or now  # it connects when the first event is asked for
        lags.extend(now - row["values"]["at"] for row in event.rows)
        if now - begun >= seconds:
            break
    return lags, time.process_time() - cpu


def main(kind: str, url: str, database: str, seconds: str) -> None:
    """Run it."""
    if kind == "python-mysql-replication":
        lags, cpu = python_mysql_replication(url, database, float(seconds))
    else:
        read = {"transactions": transactions, "batches": batches}[kind]
        lags, cpu = asyncio.run(read(url, database, float(seconds)))
    json.dump({"lags": [round(one, 5) for one in lags], "cpu": cpu}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
