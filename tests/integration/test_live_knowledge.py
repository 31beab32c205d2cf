"""What a live stream knows of tables: by settings of the source that cut answers, hide types or leave statements out.

The expected values are the server's own SELECT.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

import replica_client as rc
from replica_client.errors import ConfigError, UnknownTableError

METADATA = {
    "mysql-9.7": "MINIMAL",
    "mysql-5.6": "",
    "mariadb-10.11": "NO_LOG",
    "mariadb-11.8": "NO_LOG",
}
FAST = rc.ReconnectPolicy(first_delay=0.05, max_delay=0.3, attempts=40)


def options_of(name: str, metadata: str | None = None) -> list[str]:
    chosen = METADATA[name] if metadata is None else metadata
    return [f"binlog-row-metadata={chosen}"] if chosen else []


def text(value: object) -> object:
    """A value as SELECT and CAST show it."""
    if isinstance(value, bytes):
        return value.hex()
    return None if value is None else str(value)


def rows(changes: Iterator[Any]) -> list[list[object]]:
    return [[text(value) for value in change.after] for change in changes]


def selected(server: Any, table: str, order: str = "1") -> list[list[object]]:
    # The names of the columns of SELECT *, each as text; bytes as their digits.
    with server.connected(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY {order}")
        return [[text(value) for value in row] for row in cursor.fetchall()]


@contextmanager
def changed(server: Any, setting: str) -> Iterator[None]:
    """A global setting that is another one for a while; skips where the server has none."""
    name = setting.partition("=")[0].strip()
    connection = server.connect()
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT @@global.{name}")
        except pymysql.err.OperationalError:
            pytest.skip(f"{server.name} has no {name}")
        before = cursor.fetchone()[0]
        with suppress(pymysql.err.OperationalError):
            cursor.execute(f"SET GLOBAL {setting}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))
    connection.close()


CUTTING = (
    "max_statement_time = 0.000001",
    "max_execution_time = 1",
    "sql_select_limit = 1",
    "max_join_size = 1",
    "sql_quote_show_create = 0",
    "sql_mode = 'ANSI'",
    "sql_mode = 'ORACLE'",
    "sql_mode = 'MYSQL40'",
    "group_concat_max_len = 4",
    "lock_wait_timeout = 1",
    "character_set_client = 'latin1'",
    "max_connections = 10",
)
TABLE = (
    "CREATE TABLE {}.t (id INT, u INT UNSIGNED, e ENUM('p','q'), b BINARY(4) DEFAULT 0x00FF0100, "
    "ж VARCHAR(9) CHARACTER SET cp1251, d VARCHAR(3) DEFAULT 'x')"
)


@pytest.mark.parametrize("name", METADATA)
def test_no_global_setting_cuts_or_changes_what_is_known(fresh_server, name: str) -> None:
    """Each is set to a bad value, and rows are the server's: from the end, from the beginning, and resumed."""
    server = fresh_server(name, options_of(name))
    seen = 0
    for setting in CUTTING:
        database = server.create_database("cut")
        with server.connected(charset="utf8mb4") as connection:
            connection.query(TABLE.format(database))
        insert = server.connect(charset="utf8mb4", autocommit=True)
        start = rc.Position(*server.binlog_position())
        try:
            with changed(server, setting):
                held = _hold_connections(server) if "max_connections" in setting else []
                threading.Timer(1.0, lambda held=held: [one.close() for one in held]).start()
                options = {"tables": [f"{database}.*"], "reconnect": FAST, "read_timeout": 30}
                with rc.follow(server.url(), start="latest", **options) as stream:
                    insert.query(
                        f"INSERT {database}.t (id, u, e, ж) VALUES (1, 4000000000, 'q', 'жя')"
                    )
                    change = next(stream.changes())
                    resume = stream.position
                found = [rows(iter([change]))]
                for begin in (start, resume):
                    with rc.follow(
                        server.url(), start=begin, stop_at_end=True, **options
                    ) as stream:
                        found.append(rows(stream.changes()))
        except pytest.skip.Exception:
            continue
        seen += 1
        expected = selected(server, f"{database}.t")
        assert [len(one) for one in found[:2]] == [1, 1], setting
        assert found[0] == found[1] == expected, setting
        assert change.shape.column_names == ("id", "u", "e", "b", "ж", "d"), setting
        # SHOW CREATE TABLE is read for it; MySQL 5.6 shows a byte above 127 as a question mark there.
        if server.flavor == "mysql" and server.version >= (8, 0):
            assert change.shape.columns[3].definition.default == "0x00FF0100", setting
    assert seen >= len(CUTTING) - 3


def _hold_connections(server: Any) -> list[Any]:
    """All connections that a user may have but one: the second is refused with 1040."""
    held: list[Any] = []
    with suppress(pymysql.err.OperationalError):
        while True:
            held.append(server.connect("repl"))
    held.pop().close()
    time.sleep(0.2)
    return held


HIDDEN = {
    "u": ("UUID", "'123e4567-e89b-12d3-a456-426655440000'", (10, 7)),
    "six": ("INET6", "'2001:db8::ff00:42:8329'", (10, 5)),
    "four": ("INET4", "'192.168.1.254'", (10, 10)),
    "vec": ("VECTOR(4)", "VEC_FromText('[1,2.5,-3,4]')", (11, 7)),
    "b16": ("BINARY(16)", "'0123456789abcdef'", (0,)),
    "b4": ("BINARY(4)", "'wxyz'", (0,)),
    "v16": ("VARBINARY(16)", "'0123456789abcdef'", (0,)),
    "c16": ("CHAR(16)", "'sixteen letters!'", (0,)),
}


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
@pytest.mark.parametrize("metadata", ["NO_LOG", "MINIMAL", "FULL"])
def test_types_that_the_table_map_hides(fresh_server, name: str, metadata: str) -> None:
    """Right from every entry of a live source; in files by their CREATE TABLE or a schema, else refused by name."""
    server = fresh_server(name, options_of(name, metadata))
    # With the database's CREATE, whose character set c16 has: NO_LOG leaves it out of the table map.
    first, created_in = rc.Position(*server.binlog_position()), server.binlog_files()[-1]
    database = server.create_database("hidden")
    columns = {key: one for key, one in HIDDEN.items() if server.version[: len(one[2])] >= one[2]}
    definition = ", ".join(f"{key} {one[0]}" for key, one in columns.items())
    server.execute(f"CREATE TABLE {database}.t (id INT, {definition})")
    server.rotate()
    begin = rc.Position(*server.binlog_position())
    row = ", ".join(one[1] for one in columns.values())
    for number in range(2):
        server.execute(f"INSERT {database}.t VALUES ({number}, {row})")
    expected = _as_texts(server, database, columns)
    options = {"tables": [f"{database}.*"], "stop_at_end": True}
    for start in (first, begin):
        with rc.follow(server.url(), start=start, **options) as stream:
            assert _values(stream.changes()) == expected
    with rc.follow(server.url(), start=begin, **options) as stream:
        next(stream.transactions())
        resume = stream.position
    with rc.follow(server.url(), start=resume, **options) as stream:
        assert _values(stream.changes()) == expected[1:]
    data = Path(server.datadir)
    files = [data / one for one in server.binlog_files() if one >= created_in]
    both = rc.open_binlog(files, tables=[f"{database}.*"], start=first)
    assert _values(both.changes()) == expected
    alone = rc.open_binlog(data / begin.file, tables=[f"{database}.*"])
    if metadata == "FULL":
        with pytest.raises(UnknownTableError, match=r"does not name the type of u \(INET6 or UUID"):
            list(alone.changes())
        some = rc.open_binlog(data / begin.file, columns=["id", "c16"], tables=[f"{database}.*"])
        assert [dict(one.after)["c16"] for one in some.changes()] == ["sixteen letters!"] * 2


def _as_texts(server: Any, database: str, columns: dict[str, Any]) -> list[list[object]]:
    parts = ["id"]
    for key, one in columns.items():
        kind = one[0].partition("(")[0]
        if kind == "VECTOR":
            parts.append(f"VEC_ToText({key})")
        elif "BINARY" in kind:
            parts.append(f"LOWER(HEX({key}))")
        else:
            parts.append(f"CAST({key} AS CHAR)")
    found = server.query(f"SELECT {', '.join(parts)} FROM {database}.t ORDER BY id")
    return [[_number_list(text(value)) for value in one] for one in found]


def _values(changes: Iterator[Any]) -> list[list[object]]:
    found = []
    for change in changes:
        found.append([_number_list(value) for value in change.after])
    return found


def _number_list(value: object) -> object:
    if isinstance(value, str) and value.startswith("["):
        return [float(one) for one in json.loads(value)]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)) or type(value).__module__ == "array":
        return [float(one) for one in value]
    return text(value)


MODES = ("", "ORACLE", "ANSI", "POSTGRESQL", "MSSQL", "DB2", "MAXDB", "NO_TABLE_OPTIONS", "MYSQL40")


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_definitions_that_a_mode_leaves_incomplete(fresh_server, name: str) -> None:
    """CREATE TABLE … SELECT is logged without table options under some modes: never another text than SELECT's."""
    server = fresh_server(name, options_of(name))
    chance = random.Random(36)
    levels = ("NO_LOG", "MINIMAL", "FULL") if server.flavor == "mariadb" else ("MINIMAL", "FULL")
    charsets = ("cp1251", "utf8mb4", "koi8r", "ucs2")
    cases = list(itertools.product(levels, MODES))
    for metadata, mode in cases:
        charset, default = chance.choice(charsets), chance.choice(("latin1", "greek", "utf8mb4"))
        server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
        database = "modes"
        with server.connected(charset="utf8mb4") as session:
            session.query(f"DROP DATABASE IF EXISTS {database}")
            server.rotate()
            start = rc.Position(*server.binlog_position())
            session.query(f"CREATE DATABASE {database} CHARACTER SET {default}")
            session.query(f"CREATE TABLE {database}.q (t TEXT CHARACTER SET utf8mb4)")
            session.query(f"INSERT {database}.q VALUES ('жя')")
            try:
                session.query(f"SET sql_mode = '{mode}'")
            except pymysql.err.Error:
                continue
            session.query(
                f"CREATE TABLE {database}.s (t TEXT, e ENUM('ж','q')) CHARACTER SET {charset} "
                f"SELECT t, 'ж' AS e FROM {database}.q"
            )
            session.commit()
        expected = selected(server, f"{database}.s")
        options = {"tables": [f"{database}.s"]}
        with rc.follow(server.url(), start=start, stop_at_end=True, **options) as stream:
            assert rows(stream.changes()) == expected, (metadata, mode, charset, default)
        path = Path(server.datadir) / start.file
        # Only text without a character set of its own is unproven; the server wrote the labels.
        found = list(rc.open_binlog(path, **options).changes())
        for change, row in zip(found, expected, strict=True):
            assert change.after.columns == ("t", "e"), (metadata, mode, charset, default)
            assert text(change.after["e"]) == row[1], (metadata, mode, charset, default)
            for value, wanted in zip(change.after, row, strict=True):
                is_unproven = isinstance(value, bytes) or text(value) in ("None", "1")
                assert is_unproven or text(value) == wanted, (metadata, mode, charset, default)


@pytest.mark.parametrize("name", METADATA)
def test_filters_that_hide_statements_are_seen_at_start(fresh_server, name: str) -> None:
    """Rows after an ALTER from another database would have their columns swapped."""
    server = fresh_server(name, ["binlog-do-db=fx", *options_of(name)])
    with server.connected() as session:
        for sql in (
            "CREATE DATABASE fx",
            "CREATE DATABASE fy",
            "USE fx",
            "CREATE TABLE t (a INT, b INT)",
        ):
            session.query(sql)
        start = rc.Position(server.binlog_files()[0], 4)
        for sql in (
            "USE fy",
            "ALTER TABLE fx.t CHANGE a b INT, CHANGE b a INT",
            "USE fx",
            "INSERT t (a, b) VALUES (5, 6)",
        ):
            session.query(sql)
        session.commit()
    for begin in (start, "earliest", "latest"):
        with (
            pytest.raises(ConfigError, match="logs only databases fx"),
            rc.follow(server.url(), start=begin, stop_at_end=True, tables=["fx.*"]) as stream,
        ):
            list(stream.changes())
    with rc.follow(server.url(), start=start, stop_at_end=True) as stream:
        assert sum(1 for _ in stream.events()) > 3  # events need no definitions
    others = rc.follow(
        server.url(), start=start, stop_at_end=True, tables=["fy.*"], allow_empty=True
    )
    with others as stream:
        assert list(stream.changes()) == []  # no row of these is logged
    accepted = rc.AssemblyOptions(rc.Selection(["fx.*"]), on_unknown_table="positional")
    with rc.follow(server.url(), start="latest", stop_at_end=True, assembly=accepted) as stream:
        assert list(stream.changes()) == []
    if METADATA[name]:
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
        begin = rc.Position(*server.binlog_position())
        with server.connected() as session:
            session.query("USE fx")
            session.query("INSERT t (a, b) VALUES (7, 8)")
            session.commit()
        with rc.follow(server.url(), start=begin, stop_at_end=True, tables=["fx.*"]) as stream:
            assert [dict(change.after) for change in stream.changes()] == [{"b": 8, "a": 7}]


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_the_last_gtid_of_a_domain_is_the_position(fresh_server, name: str) -> None:
    """Without gtid_strict_mode numbers go back; each position of the stream gives exactly what comes after it."""
    server = fresh_server(name, options_of(name, "FULL"))
    session = server.connect(autocommit=True)
    run = session.query
    run("SET GLOBAL gtid_strict_mode = 0")
    run("CREATE DATABASE g")
    run("CREATE TABLE g.t (a INT)")
    server.rotate()
    chance = random.Random(9)
    numbers = {one: itertools.count(chance.randrange(50, 200)) for one in (101, 102, 103)}
    begin = server.binlog_position()
    for value in range(14):
        writer = chance.choice((101, 102, 103))
        run(f"SET gtid_domain_id = {chance.choice((0, 0, 7))}")
        run(f"SET SESSION server_id = {writer}, SESSION gtid_seq_no = {next(numbers[writer])}")
        run(f"INSERT g.t VALUES ({value})")
        if value == 6:
            server.rotate()
    session.close()
    options: dict[str, Any] = {"tables": ["g.*"], "stop_at_end": True}
    with rc.follow(server.url(), start=rc.Position(begin[0], 4), **options) as stream:
        moments = [
            (one.position, [change.after[0] for change in one.changes])
            for one in stream.transactions()
        ]
    values = [value for _, found in moments for value in found]
    assert values == list(range(14))
    files = [Path(server.datadir) / one for one in server.binlog_files() if one >= begin[0]]
    for at, (position, _) in enumerate(moments):
        rest = values[at + 1 :]
        state = position.gtid_set
        last = rc.MariadbGtidSet(state.positions())
        for start in (position, rc.Position("", 0, state), rc.Position("", 0, last)):
            with rc.follow(server.url(), start=start, **options) as stream:
                assert [change.after[0] for change in stream.changes()] == rest, start
        for gtids in (state, last):
            found = rc.open_binlog(files, tables=["g.*"], start=gtids).changes()
            assert [change.after[0] for change in found] == rest, gtids
