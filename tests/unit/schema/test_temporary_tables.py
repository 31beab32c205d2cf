"""Statements on temporary tables, which may have the names of others, and leave those as they are."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat, EventHeader
from replica_client.protocol.binlog.events.control import FormatDescriptionEvent
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.constants.event_types import EventFlag
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import ABSENT, Unverified
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import CreateTable, DropTables
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.stream.transactions.query_text import Provenance, read_query
from replica_client.stream.transactions.schema_tracking import SchemaTracker
from tests.unit.schema.tables import MARIADB, MYSQL, columns, history_of

BASE = ("CREATE TABLE t (a INT)", "CREATE TABLE u (b INT)")
OLD = replace(MYSQL, version=(5, 6, 24))


def run(
    history: SchemaHistory,
    *statements: str,
    context: StatementContext,
    used: bool | None,
) -> list[str]:
    """The kinds of changes that statements of one session are."""
    context = replace(context, thread_id=7, uses_temporary=used)
    found = []
    for number, text in enumerate(statements):
        changes = history.run(text, context, "binlog.000002", 100 + number)
        found += [f"{change.kind} {change.table[1]}" for change in changes]
    return found


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("context", [OLD, MARIADB])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD z INT FIRST",
        "TRUNCATE TABLE t",
        "TRUNCATE t",
        "ALTER TABLE t RENAME TO w",
    ],
)
def test_the_event_tells_whose_table_it_is(
    context: StatementContext, statement: str, known: bool
) -> None:
    history = history_of(*BASE, context=context)
    if known:
        run(history, "CREATE TEMPORARY TABLE t (x INT)", context=context, used=True)
    assert run(history, statement, context=context, used=True) == []
    assert columns(history) == "a int"
    # Not flagged: the temporary table is gone, as after a crash of the server.
    assert len(run(history, statement, context=context, used=False)) == 1


@pytest.mark.parametrize(
    ("statements", "expected", "changes"),
    [
        # One that is not known, and whose name or new name another table has.
        (["RENAME TABLE zz TO u"], {"u": "b int"}, []),
        (["RENAME TABLE zz TO yy"], {"yy": None, "zz": None}, []),
        (["RENAME TABLE t TO u"], {"t": "?", "u": "?"}, ["not_understood t", "not_understood u"]),
        # One that is known.
        (["CREATE TEMPORARY TABLE t (x INT)", "RENAME TABLE t TO u"], {"t": "a int", "u": "b int"}, []),
        (["CREATE TEMPORARY TABLE t (x INT)", "RENAME TABLE t TO w, u TO v"],
         {"t": "a int", "v": "b int", "w": None}, ["rename_table u"]),
        # Tools that alter tables online.
        (["RENAME TABLE t TO _old, u TO t"], {"t": "b int", "_old": "a int"}, ["rename_table t", "rename_table u"]),
        (["RENAME TABLE t TO w"], {"t": None, "w": "a int"}, ["rename_table t"]),
    ],
)  # fmt: skip
def test_renamed_by_mariadb(
    statements: list[str], expected: dict[str, str | None], changes: list[str]
) -> None:
    history = history_of(*BASE, context=MARIADB)
    found = []
    for text in statements:
        used = "TEMPORARY" in text
        found += run(history, text, context=MARIADB, used=used)
    assert found == changes
    for table, text in expected.items():
        state = history.table(("d", table))
        if text == "?":
            assert isinstance(state, Unverified)
        elif text is None:
            assert not isinstance(state, TableModel | Unverified)
        else:
            assert columns(history, table) == text


def test_mysql_renames_no_temporary_table() -> None:
    history = history_of(*BASE, context=OLD)
    run(history, "CREATE TEMPORARY TABLE t (x INT)", context=OLD, used=True)
    assert run(history, "RENAME TABLE t TO w", context=OLD, used=False) == ["rename_table t"]
    assert history.table(("d", "t")) is ABSENT
    assert columns(history, "w") == "a int"


def test_the_renaming_of_a_view_changes_no_table() -> None:
    history = history_of(*BASE)
    assert run(history, "RENAME TABLE v TO w", context=MYSQL, used=False) == []
    assert history.table(("d", "w")) is None


@pytest.mark.parametrize(
    ("file", "created", "left"),
    [
        ("binlog.000003", 1_700_000_000, 0),
        ("binlog.000003", 0, 1),
        ("binlog.000002", 1_700_000_000, 1),
    ],
)
def test_sessions_end_with_their_server(file: str, created: int, left: int) -> None:
    """Not where a reader begins inside of the server's first file again."""
    history = history_of(*BASE, context=OLD)
    run(history, "CREATE TEMPORARY TABLE t (x INT)", context=OLD, used=True)
    tracker = SchemaTracker(history, Selection("*.*"))
    body = FormatDescriptionEvent(server_version="5.6.24", create_timestamp=created)
    tracker.server_began(BinlogEvent(EventHeader(0, 15, 1, 120, 124, 0), body, file, 4))
    assert len(history.to_json()["temporary"]) == left


@pytest.mark.parametrize(
    ("version", "flagged", "query", "expected"),
    [
        ("5.6.24-log", True, b"ALTER TABLE t ADD b INT", True),
        ("5.6.24-log", False, b"ALTER TABLE t ADD b INT", False),
        ("9.7.4", False, b"TRUNCATE TABLE t", False),
        ("5.5.62-log", True, b"ALTER TABLE t ADD b INT", True),
        # Not every statement was flagged there.
        ("5.5.62-log", False, b"TRUNCATE TABLE t", None),
        ("10.1.48-MariaDB", False, b"TRUNCATE TABLE t", None),
        ("10.11.18-MariaDB-log", False, b"TRUNCATE TABLE t", False),
        ("11.8.6-MariaDB-log", True, b"TRUNCATE TABLE t", True),
        # Or a function of the session.
        ("9.7.4", True, b"ALTER TABLE t ADD b INT DEFAULT (CONNECTION_ID())", None),
    ],
)
def test_what_the_flag_of_an_event_tells(
    version: str, flagged: bool, query: bytes, expected: bool | None
) -> None:
    read = read_query(query_event(query, flagged), BinlogFormat(server_version=version))
    assert read.context.uses_temporary is expected


@pytest.mark.parametrize(
    ("version", "columns_text"),
    [
        ("11.8.6-MariaDB", b"`a` int(11) DEFAULT NULL,\n  `b` varchar(9) DEFAULT NULL"),
        ("5.6.24", b"`b` enum('x') DEFAULT NULL"),
        ("5.6.24", b"`b` varchar(9) CHARACTER SET sjis DEFAULT NULL"),
        ("5.6.24", b"`a` int(11) DEFAULT NULL,\n  `c` varbinary(9) DEFAULT NULL"),
        # Table maps tell it.
        ("9.7.4", b"`b` varchar(9) DEFAULT NULL"),
    ],
)
def test_like_a_temporary_table(version: str, columns_text: bytes) -> None:
    """All is known but the character set of columns that have none of their own."""
    layout = BinlogFormat(server_version=version)
    text = b"CREATE TABLE `n` (\n  " + columns_text + b"\n) ENGINE=InnoDB"
    alone = Provenance(in_group=False, first_hand=True)
    read = read_query(query_event(text, flagged=True), layout, alone)
    history = history_of(context=replace(MYSQL, server_charset="latin1"))
    changes = history.apply(read.meaning, read.context, "binlog.000002", 100)
    assert [isinstance(change.after, TableModel) for change in changes] == [True]
    if b"CHARACTER" not in text:
        model = history.table(("d", "n"))
        assert isinstance(model, TableModel)
        assert all(column.charset is None for column in model.columns)
    # In a transaction it is of a query, and lacks what is that of the database.
    of_query = read_query(query_event(text, flagged=True), layout, Provenance(True, True))
    assert isinstance(of_query.meaning, CreateTable)
    assert not of_query.meaning.charset_unknown


@pytest.mark.parametrize(
    ("version", "query", "asked"),
    [
        ("11.8.6-MariaDB", b"RENAME TABLE t TO w", ["t"]),
        ("11.8.6-MariaDB", b"RENAME TABLE IF EXISTS t TO w, x.u TO v", ["t", "u"]),
        ("11.8.6-MariaDB", b"SET STATEMENT lock_wait_timeout=1 FOR RENAME TABLE t TO w", ["t"]),
        # The name is there behind it, as that of another table.
        ("11.8.6-MariaDB", b"RENAME TABLE t TO _old, _new TO t", []),
        ("11.8.6-MariaDB", b"RENAME TABLE D.T TO _old, _new TO d.t", []),
        ("11.8.6-MariaDB", b"ALTER TABLE t RENAME TO w", []),
        ("5.6.24", b"RENAME TABLE t TO w", []),
    ],
)
def test_which_renames_are_asked_about(version: str, query: bytes, asked: list[str]) -> None:
    tracker = SchemaTracker(SchemaHistory(), Selection("*.*"))
    found = tracker.perhaps_temporary(
        query_event(query, flagged=False), BinlogFormat(server_version=version)
    )
    assert [table for _, table in found] == asked


@pytest.mark.parametrize(
    ("version", "collation", "name"),
    [
        ("5.6.24", 28, "t表"),  # GBK, which reads another name
        ("10.11.14-MariaDB", 1, "t表"),  # Big5
        ("11.8.6-MariaDB", 28, "t表"),
        ("9.7.0", 33, "t表"),  # the client's, which MySQL 8 keeps
        ("9.7.0", 28, "t琛▁"),
    ],
)
def test_a_drop_that_the_server_wrote(version: str, collation: int, name: str) -> None:
    """MySQL before 8 and MariaDB write it in UTF-8, whatever the client's character set is."""
    charset = "gbk" if version == "9.7.0" and collation == 28 else "utf8"
    query = f"DROP TEMPORARY TABLE IF EXISTS `{name}` /* generated by server */".encode(charset)
    status = bytes([4]) + struct.pack("<3H", collation, collation, 45)
    event = query_event(query, flagged=True, status=status)
    found = read_query(event, BinlogFormat(server_version=version), Provenance())
    assert found.meaning == DropTables((("d", name),), temporary=True)


def query_event(query: bytes, flagged: bool, status: bytes = b"") -> BinlogEvent:
    """A statement in the database ``d``."""
    body = QueryEvent(7, 0, 0, status, b"d", query)
    flags = EventFlag.LOG_EVENT_THREAD_SPECIFIC_F if flagged else 0
    return BinlogEvent(EventHeader(0, 2, 1, 99, 199, flags), body, "binlog.000002", 100)
