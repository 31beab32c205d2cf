"""One client, one run: reads a workload and prints what it took, as JSON.

    client.py NAME HOST PORT USER PASSWORD FILE CHANGES PATH

It runs in the environment of its client and imports nothing else of ours. Start and imports do not
count; every client reads until it has seen all changes. What is compared with memcpy is done
several times in turn with it, as memory that a process touches first costs more than either; its
figures are medians, and "share" the median of the ratios. Before that the file leaves the page cache
and is read once: its pages lie there as those of any file that was read from disk, not one by one as
the server wrote them (with ``BENCH_AS_WRITTEN`` in the environment they stay so).
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import sys
import time
from typing import Any

NAME, HOST, PORT, USER, PASSWORD, FILE, CHANGES, PATH = sys.argv[1:]
WANTED = int(CHANGES)
AGAINST_MEMCPY = (
    "file_arrow",
    "mapped_arrow",
    "memory_arrow",
    "filtered",
    "mapped_filtered",
    "memory_filtered",
)
REPEATS = 9
SERVER_ID = 900_000 + os.getpid() % 90_000


def _connect_of(package: Any) -> Any:
    """How to connect; what is imported at its first use, and at the first events, does not count."""
    return package.connect


def arrow() -> Any:
    """Arrow record batches from the live source."""
    import replica_client as rc
    import replica_client.rows.batching

    connect = _connect_of(rc)

    async def run() -> int:
        rows = 0
        url = f"mysql://{USER}:{PASSWORD}@{HOST}:{PORT}/?allow_public_key_retrieval=true"
        async with connect(url, start=f"{FILE}:4", stop_at_end=True, tls="disabled") as stream:
            async for batch in stream.batches():
                rows += batch.num_rows
        return rows

    return lambda: asyncio.run(run())


def dicts() -> Any:
    """Rows as dicts with JSON as Python objects, from the live source."""
    import replica_client as rc

    connect = _connect_of(rc)

    async def run() -> int:
        changes = 0
        url = f"mysql://{USER}:{PASSWORD}@{HOST}:{PORT}/?allow_public_key_retrieval=true"
        async with connect(url, start=f"{FILE}:4", stop_at_end=True, tls="disabled") as stream:
            async for change in stream.changes():
                before, after = change.before, change.after
                if before is not None:
                    before.as_dict(plain_json=True)
                if after is not None:
                    after.as_dict(plain_json=True)
                changes += 1
        return changes

    return lambda: asyncio.run(run())


def file_arrow(**options: Any) -> Any:
    """Arrow record batches from the file."""
    import replica_client as rc
    import replica_client.rows.batching

    open_binlog = rc.open_binlog
    return lambda: sum(b.num_rows for b in open_binlog(PATH, **options).batches())


def mapped_arrow(**options: Any) -> Any:
    """Arrow record batches from the file, whose pages are read where they are."""
    return file_arrow(memory_map=True, **options)


def memory_arrow(**options: Any) -> Any:
    """Arrow record batches from the file's bytes in memory, where memcpy has them, too."""
    import replica_client as rc
    import replica_client.rows.batching

    with open(PATH, "rb") as file:
        data = file.read()
    open_binlog = rc.open_binlog
    return lambda: sum(b.num_rows for b in open_binlog(data, **options).batches())


def filtered() -> Any:
    """The file with no table wanted."""
    return file_arrow(tables="no.such")


def mapped_filtered() -> Any:
    """The same, the file's pages read where they are."""
    return mapped_arrow(tables="no.such")


def memory_filtered() -> Any:
    """The bytes in memory with no table wanted."""
    return memory_arrow(tables="no.such")


def _memcpy() -> Any:
    """Copying the file's bytes through a buffer of 4 MB."""
    with open(PATH, "rb") as file:
        data = memoryview(file.read())
    target = memoryview(bytearray(4 << 20))

    def run() -> int:
        for at in range(0, len(data), 4 << 20):
            piece = data[at : at + (4 << 20)]
            target[: len(piece)] = piece
        return len(data)

    return run


def python_mysql_replication() -> Any:
    """Its row events, every row touched."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    def run() -> int:
        stream = BinLogStreamReader(
            connection_settings={"host": HOST, "port": int(PORT), "user": USER, "passwd": PASSWORD},
            server_id=SERVER_ID,
            log_file=FILE,
            log_pos=4,
            resume_stream=True,
            only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
        )
        changes = 0
        for event in stream:
            changes += len(event.rows)
            if changes >= WANTED:
                break
        stream.close()
        return changes

    return run


def pymysqlreplication_shim() -> Any:
    """The same program on this package: ``replica_client.compat``."""
    from replica_client.compat.shim import install

    install()
    return python_mysql_replication()


def asyncmy_shim() -> Any:
    """The program of asyncmy on this package; the connections are asyncmy's own."""
    from replica_client.compat.shim import install

    install()
    return asyncmy()


def asyncmy() -> Any:
    """Its row events, every row touched."""
    import asyncmy as driver
    from asyncmy.replication import BinLogStream
    from asyncmy.replication.row_events import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    async def run() -> int:
        one = await driver.connect(host=HOST, port=int(PORT), user=USER, password=PASSWORD)
        two = await driver.connect(host=HOST, port=int(PORT), user=USER, password=PASSWORD)
        stream = BinLogStream(
            one,
            two,
            SERVER_ID,
            master_log_file=FILE,
            master_log_position=4,
            resume_stream=True,
            blocking=True,
            only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
        )
        changes = 0
        async for event in stream:
            changes += len(event.rows)
            if changes >= WANTED:
                break
        await stream.close()
        return changes

    return lambda: asyncio.run(run())


def mysql_event_stream() -> Any:
    """Its fastest way: the blocking client polled in batches, into the engine."""
    from mysql_event_stream import BinlogClient, CdcEngine

    def run() -> int:
        changes = 0
        with (
            CdcEngine() as engine,
            BinlogClient(
                host=HOST,
                port=int(PORT),
                user=USER,
                password=PASSWORD,
                server_id=SERVER_ID,
                start_binlog_file=FILE,
                start_binlog_position=4,
                ssl_mode=0,
                allow_public_key_retrieval=True,
            ) as client,
        ):
            engine.set_trailer_pre_verified(True)  # the client has verified it
            client.connect()
            client.start()
            while changes < WANTED:
                for result in client.poll_batch(1024):
                    data = result.data
                    offset = 0
                    if data:
                        engine.set_checksum_enabled(result.checksum_enabled)
                    while data and (offset < len(data) or engine.has_events()):
                        while (event := engine.next_event()) is not None:
                            assert event.before is not None or event.after is not None
                            changes += 1
                        if offset < len(data):
                            offset += engine.feed(data[offset:] if offset else data)
        return changes

    return run


def _measured(run: Any) -> dict[str, float]:
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = run()
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "wall": wall, "result": result}


def _read_from_disk() -> None:
    with open(PATH, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(1 << 20):
            pass


def _against_memcpy(run: Any) -> dict[str, float]:
    if "BENCH_AS_WRITTEN" not in os.environ:
        _read_from_disk()
    copy = _memcpy()
    copy()
    run()
    runs, copies = [], []
    for _ in range(REPEATS):
        copies.append(_measured(copy)["cpu"])
        runs.append(_measured(run))
    found = {key: statistics.median(one[key] for one in runs) for key in runs[0]}
    shares = [copied / one["cpu"] for copied, one in zip(copies, runs, strict=True)]
    return found | {"memcpy": statistics.median(copies), "share": statistics.median(shares)}


def main() -> None:
    """Run one client and print its figures."""
    run = globals()[NAME]()
    found = _against_memcpy(run) if NAME in AGAINST_MEMCPY else _measured(run)
    found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


if __name__ == "__main__":
    main()
