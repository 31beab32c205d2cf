"""Random questions to an archive of a real server: what the index finds, against a look at every change."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import replica_client as rc
from replica_client.archive import file_index
from replica_client.rows.selection import exact_pattern
from replica_client.rows.special_values import ABSENT
from tests.integration.undo_histories import SETTINGS, Table
from tests.servers.local import LocalServer

_Order = tuple[str, int, int, int]
_TEXTS = (int, str, bytes, rc.Date, rc.DateTime, rc.Time)


def _order(change: rc.Change) -> _Order:
    return change.file, change.offset, change.event_index, change.row_index


def _typed(value: object) -> str:
    """A value as a user types it."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


def _keys(change: rc.Change, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The keys before and after a change that can be typed."""
    for row in (change.before, change.after):
        if row is None:
            continue
        values = [row[name] for name in columns]
        if row is change.after and change.before is not None:
            old = [change.before[name] for name in columns]
            values = [was if now is ABSENT else now for was, now in zip(old, values, strict=True)]
        if all(isinstance(value, _TEXTS) for value in values):
            yield tuple(map(_typed, values))


def prove(server: LocalServer, directory: Path, seed: int, questions: int) -> Counter[str]:
    """Make a history with changes of keys and RENAME TABLE, and ask about it.

    Args:
        server: of the history.
        directory: for indexes.
        seed: of the history and the questions.
        questions: how many.
    """
    rng = random.Random(seed)
    counts: Counter[str] = Counter(histories=1)
    server.rotate()
    first = server.binlog_position()[0]
    database = server.create_database("find")
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            for setting in SETTINGS:
                cursor.execute(setting)
            if server.flavor == "mysql" and server.version >= (8, 0, 20):
                choice = rng.choice(("ON", "OFF"))
                cursor.execute(f"SET binlog_transaction_compression = {choice}")
            image = rng.choice(("FULL", "MINIMAL", "NOBLOB"))
            cursor.execute(f"SET SESSION binlog_row_image = {image}")
            tables = [
                Table(rng, f"{database}.t{at}", server.flavor, server.version) for at in range(3)
            ]
            for table in tables:
                cursor.execute(f"CREATE TABLE {table.name} ({table.definition}) ENGINE=InnoDB")
            for _ in range(40):
                for _ in range(rng.randrange(1, 5)):
                    cursor.execute(rng.choice(tables).statement(rng))
                connection.commit()
                if rng.random() < 0.08:
                    table = rng.choice(tables)
                    name = f"{database}.r{rng.randrange(10**6)}"
                    cursor.execute(f"RENAME TABLE {table.name} TO {name}")
                    table.name = name
                if rng.random() < 0.05:
                    server.rotate()
    finally:
        connection.close()
    server.rotate()
    names = server.binlog_files()
    files = [server.binlog_path(name) for name in names[names.index(first) : -1]]
    expected: dict[tuple[str, tuple[str, ...], tuple[str, ...]], set[_Order]] = defaultdict(set)
    for change in rc.open_binlog(files, tables=[f"{database}.*"]).changes():
        counts["changes"] += 1
        columns = tuple(change.shape.columns[at].name for at in change.shape.primary_key)
        if columns:
            table_name = exact_pattern(change.database, change.table)
            for key in _keys(change, columns):
                expected[table_name, columns, key].add(_order(change))
    with patch.object(file_index, "STEP", rng.choice((1, 2000))):
        archive = rc.open_archive(files, index_directory=directory)
        archive.index()
    asked = sorted(expected)
    for _ in range(questions if asked else 0):
        table_name, columns, key = rng.choice(asked)
        if rng.random() < 0.1:
            if all(value.isdigit() for value in key):
                key = tuple(str(int(value + "1")) for value in key)
        wanted = dict(zip(columns, key, strict=True))
        found = [_order(one.change) for one in archive.find(table_name, wanted, statements=False)]
        counts["questions"] += 1
        if found != sorted(expected.get((table_name, columns, key), set())):
            counts["differences"] += 1
            print(f"seed {seed}, {server.name}: {table_name} {wanted}: {found}")
    server.drop_database(database)
    return counts
