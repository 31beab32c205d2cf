"""Random histories of tables on a real server: tables as they were, both ways, against the server's own SELECT."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from replica_client.archive.archive import open_archive
from replica_client.archive.as_of.segment_images import as_images, row_schema
from replica_client.archive.as_of.starting_rows import LiveRows
from replica_client.errors import DataLossError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.arrow_types import arrow_column
from tests.integration.undo_histories import SETTINGS, Table
from tests.servers.local import LocalServer

COMPUTED = frozenset({"g"})
"""The generated column that tables of these histories may have."""


def url_of(server: LocalServer) -> str:
    """Where a server is, with its root account."""
    address = server.address
    return f"mysql://root:{address.root_password}@{address.host}:{address.port}/"


def selected(server: LocalServer, name: str) -> pa.Table:
    """What a table is now, by the server's own SELECT."""
    database, table = name.split(".")
    rows = LiveRows(url_of(server), (database, table), DecodeOptions())
    rows.open()
    with closing(rows):
        schema = row_schema(rows.shape, lambda one: arrow_column(one).type)
        batches = [as_images(one, schema).select(schema.names) for one in rows.batches()]
    return pa.Table.from_batches(batches, schema)


def as_set(table: pa.Table) -> Counter[str]:
    """Rows without their order."""
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


def prove(server: LocalServer, directory: Path, seed: int, instants: int) -> Counter[str]:
    """Make a history, and ask for tables at moments of it.

    Args:
        server: with an archive of its own.
        directory: for indexes.
        seed: of the history.
        instants: how many.
    """
    rng = random.Random(seed)
    counts: Counter[str] = Counter(histories=1)
    server.rotate()
    first = server.binlog_position()[0]
    database = server.create_database("asof")
    known: list[tuple[str, str, pa.Table]] = []
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            for setting in (*SETTINGS, "SET foreign_key_checks = 0"):
                cursor.execute(setting)
            tables = []
            for number in range(rng.randrange(1, 3)):
                table = Table(rng, f"{database}.t{number}", server.flavor, server.version)
                cursor.execute(f"CREATE TABLE {table.name} ({table.definition}) ENGINE=InnoDB")
                tables.append(table)
            for _ in range(instants):
                for _ in range(rng.randrange(1, 5)):
                    cursor.execute(rng.choice(tables).statement(rng))
                connection.commit()
                if rng.random() < 0.06:
                    _alter(rng, cursor, rng.choice(tables), counts)
                if rng.random() < 0.05:
                    server.rotate()
                table = rng.choice(tables)
                moment = _moment(server, rng, counts)
                known.append((table.name, moment, selected(server, table.name)))
    finally:
        connection.close()
    server.rotate()
    names = server.binlog_files()
    files = [server.binlog_path(name) for name in names[names.index(first) :]]
    archive = open_archive(files, index_directory=directory)
    for name, position, rows in known:
        counts["instants"] += 1
        for direction, live in (("forward", None), ("backward", url_of(server))):
            expected = as_set(rows)
            try:
                state = archive.as_of(name, position, live=live)
                found = as_set(state.read_all())
            except DataLossError as error:
                computed = [one for one in rows.schema.names if one in COMPUTED]
                if not computed or "row image lacks" not in str(error):
                    counts[f"{direction} refused"] += 1
                    print(f"seed {seed}, {server.name}, {direction}: {error}")
                    continue
                # MariaDB 11.8.9 does not log them.
                counts[f"{direction} without generated columns"] += 1
                state = archive.as_of(name, position, live=live, without=computed)
                found = as_set(state.read_all())
                expected = as_set(rows.drop_columns(computed))
            counts[direction] += 1
            counts["rows"] += found.total()
            if found != expected:
                counts["differences"] += 1
                print(f"seed {seed}, {server.name}, {name} at {position}, {direction}:")
                print("  missing", list((expected - found).items())[:2])
                print("  too many", list((found - expected).items())[:2])
    if not counts["differences"]:
        server.drop_database(database)
    return counts


def _moment(server: LocalServer, rng: random.Random, counts: Counter[str]) -> str:
    """Now, as a position or as what the server says of its GTIDs."""
    variable = "gtid_executed" if server.flavor == "mysql" else "gtid_binlog_pos"
    gtids = str(server.query(f"SELECT @@global.{variable}")[0][0] or "").replace("\n", "")
    if gtids and rng.random() < 0.7:
        counts["by GTID"] += 1
        return gtids
    return ":".join(map(str, server.binlog_position()))


def _alter(rng: random.Random, cursor: Any, table: Table, counts: Counter[str]) -> None:
    """A statement that changes a table, and can be followed both ways."""
    counts["statements on tables"] += 1
    number = rng.randrange(10**6)
    kind = rng.randrange(3)
    if kind == 0:
        name = f"{table.name.partition('.')[0]}.r{number}"
        cursor.execute(f"RENAME TABLE {table.name} TO {name}")
        table.name = name
    elif kind == 1 and table.key:
        cursor.execute(f"ALTER TABLE {table.name} ADD COLUMN x{number} INT NULL")
        cursor.execute(f"UPDATE {table.name} SET x{number} = 7 LIMIT 2")
        cursor.connection.commit()
    else:
        cursor.execute(f"ALTER TABLE {table.name} ADD INDEX i{number} (k)")
