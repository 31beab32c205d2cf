"""What a relay answers to SHOW statements, beside what its source answers."""

from __future__ import annotations

import time
from typing import Any

import pymysql

from tests.integration.relays import PASSWORD, USER, RelayProcess
from tests.servers.local import LocalServer

Answer = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def asked(port: int, user: str, password: str, sql: str) -> Answer:
    """Column names and rows."""
    with (
        pymysql.connect(host="127.0.0.1", port=port, user=user, password=password) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
        names = tuple(column[0] for column in cursor.description)
        return names, [tuple(row) for row in cursor.fetchall()]


def assert_same_answers(relay: RelayProcess, source: LocalServer, seconds: float = 60) -> None:
    """The relay answers as the source does, as soon as it has the same files.

    MariaDB writes the checkpoint event of a file when it finds the time.
    """
    deadline = time.monotonic() + seconds
    while found := differences(relay, source):
        assert time.monotonic() < deadline, found[:5]
        time.sleep(0.1)


def differences(relay: RelayProcess, source: LocalServer) -> list[str]:
    """Where the relay's answers are not the source's; both have the same files."""

    def both(sql: str) -> tuple[Answer, Answer]:
        theirs = asked(source.port, "root", source.password_of("root"), sql)
        return theirs, asked(relay.port, USER, PASSWORD, sql)

    new = source.flavor == "mysql" and source.version >= (8, 4, 0)
    found = []
    logs = "SHOW BINARY LOGS"
    status = "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS"
    for sql in (logs, status):
        theirs, ours = both(sql)
        if theirs != ours:
            found.append(f"{sql}: {theirs} != {ours}")
    files = [row[0] for row in asked(relay.port, USER, PASSWORD, logs)[1]]
    for name in files:
        sql = f"SHOW BINLOG EVENTS IN '{name}'"
        theirs, ours = both(sql)
        if theirs[0] != ours[0] or len(theirs[1]) != len(ours[1]):
            found.append(f"{sql}: {theirs[0]}, {len(theirs[1])} rows != {ours[0]}, {len(ours[1])}")
        found += [
            f"{sql}: {one} != {other}"
            for one, other in zip(theirs[1], ours[1], strict=False)
            if one != other
        ]
        middle = theirs[1][len(theirs[1]) // 2][1]
        part = f"{sql} FROM {middle} LIMIT 1, 2"
        theirs, ours = both(part)
        if theirs != ours and [row[:5] for row in theirs[1]] != [row[:5] for row in ours[1]]:
            found.append(f"{part}: {theirs} != {ours}")
    replicas = "SHOW REPLICAS" if new else "SHOW SLAVE HOSTS"
    theirs, ours = both(replicas)
    if theirs[0] != ours[0]:
        found.append(f"{replicas}: {theirs[0]} != {ours[0]}")
    return found
