"""Names, texts and doubts of savepoints; tests/integration/test_savepoints.py has real servers."""

from __future__ import annotations

import pytest

from replica_client.errors import DataLossError
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.binlog.layout import EventClass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.ddl.statement_context import MODE_ANSI_QUOTES, StatementContext
from replica_client.schema.shape import TableShape
from replica_client.stream.position.groups import query_class
from replica_client.stream.transactions.pending_rows import Savepoints, _read

MARIADB = StatementContext(flavor=ServerFlavor.MARIADB, version=(10, 11, 18))
HEADER = EventHeader(0, 23, 1, 40, 0, 0)
SHAPE = TableShape("d", "t", ())
DECODER = RowImageDecoder(SHAPE)


def _run(program: str, context: StatementContext = MARIADB, resume: Position | None = None) -> str:
    """Run statements and rows, separated by semicolons; the rows that stay.

    Rows are single digits; those with a hyphen are not the last ones of their statement.
    """
    savepoints = Savepoints()
    for index, statement in enumerate(part.strip() for part in program.split(";")):
        if statement[:1].isdigit():
            savepoints.see_rows(ends_statement=len(statement) == 1)
            event = BinlogEvent(HEADER, statement[0])
            savepoints.append(RowsOfEvent(event, SHAPE, DECODER, index, 0, ""))
        else:
            query = statement.encode("utf-8", "surrogateescape")
            savepoints.run(query, context, index, resume)
    kept = "".join(item.event.body for item in savepoints.rows if isinstance(item, RowsOfEvent))
    savepoints.clear()
    assert not list(savepoints.rows)
    return kept


@pytest.mark.parametrize(
    ("program", "kept"),
    [
        ("1; SAVEPOINT `s`; 2; ROLLBACK TO `s`; 3", "13"),
        (
            "SAVEPOINT a; 1; SAVEPOINT b; 2; ROLLBACK TO b; 3; ROLLBACK TO b; 4; ROLLBACK TO a; 5",
            "5",
        ),
        ("SAVEPOINT s; 1; SAVEPOINT b; 2; SAVEPOINT s; 3; ROLLBACK TO b; 4", "14"),
        # As clients write it, before 5.5.
        ("/* c */ savepoint s; 1; rollback /* c */ work to savepoint S; 2", "2"),
        ("savepoint s; 1; Rollback\tTo s; 2", "2"),
        ("SAVEPOINT `a``b`; 1; ROLLBACK TO `A``B`; 2", "2"),
        # A function that is called twice.
        ("1; SAVEPOINT x; 2-; ROLLBACK TO x; 3; 0; SAVEPOINT x; 4-; ROLLBACK TO x; 5", "1305"),
        # The savepoint of a function that has ended.
        ("SAVEPOINT s; 1-; SAVEPOINT s; 2; ROLLBACK TO s; 3", "3"),
        # Whether the caller set it twice, or a function in between: no row makes a difference.
        ("1; SAVEPOINT s; SAVEPOINT s; 2; ROLLBACK TO s; 3", "13"),
        # A function cannot roll back to its caller's.
        ("SAVEPOINT s; 1; 2; SAVEPOINT s; 3-; ROLLBACK TO s; 4", "124"),
        # MySQL 5.6 doubles backticks only where a savepoint is set.
        ("SAVEPOINT `a``b`; 1; ROLLBACK TO `A`B`; 2", "2"),
        ("SAVEPOINT `a```; 1; ROLLBACK TO `a``; 2", "2"),
        ("SAVEPOINT `rollback to s`; SAVEPOINT s; 1; ROLLBACK TO `rollback to s`; 2", "2"),
        # Names that no collation takes for one.
        ("SAVEPOINT `ä`; 1; SAVEPOINT `s`; 2; ROLLBACK TO `ä`; 3", "3"),
        ("SAVEPOINT `ü`; 1; SAVEPOINT `ue`; 2; ROLLBACK TO `ü`; 3", "3"),
        ("SAVEPOINT `a `; 1; SAVEPOINT `a`; 2; ROLLBACK TO `a `; 3", "3"),
        ("SAVEPOINT `\udcff\udcfe`; 1; ROLLBACK TO `\udcff\udcfe`; 2", "2"),
    ],
)
def test_rows_that_stay(program: str, kept: str) -> None:
    assert _run(program) == kept


@pytest.mark.parametrize(
    ("program", "kept"),
    [
        # A later savepoint of the same name replaces the earlier one.
        ("1; SAVEPOINT s; 2; SAVEPOINT S; 3; ROLLBACK TO s; 4", "124"),
        ("SAVEPOINT s; 1; SAVEPOINT s; 2; ROLLBACK TO s; ROLLBACK TO s; 3", "13"),
        # One in a stored function does not: rows before it are of a statement that has not ended.
        ("1; SAVEPOINT s; 2-; SAVEPOINT s; 3; ROLLBACK TO s; 4", "14"),
        ("1; SAVEPOINT s; 2-; SAVEPOINT s; 5-; ROLLBACK TO s; 3; ROLLBACK TO s; 4", "14"),
    ],
)
def test_names_that_mysql_tells_apart(program: str, kept: str) -> None:
    assert _run(program, StatementContext(version=(5, 6, 24))) == kept


def test_ansi_quotes() -> None:
    context = StatementContext(sql_mode=MODE_ANSI_QUOTES, version=(5, 6, 24))
    assert _run('SAVEPOINT "q""x"; 1; ROLLBACK TO "Q""X"; 2; ROLLBACK TO `q"x`; 3', context) == "3"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("1; ROLLBACK TO s", "not in what was read"),
        ("SAVEPOINT a; 1; SAVEPOINT b; 2; ROLLBACK TO a; ROLLBACK TO b", "not in what was read"),
        # One name for MariaDB 10.11, two for 11.8.
        ("SAVEPOINT a; 1; SAVEPOINT `ä`; 2; ROLLBACK TO a", "collation"),
        ("SAVEPOINT `é`; 1; ROLLBACK TO `É`", "collation"),
        ("SAVEPOINT `ß`; 1; ROLLBACK TO s", "collation"),
        # The second one may be a stored function's, and the first one be meant.
        ("SAVEPOINT s; 1; SAVEPOINT s; 2; ROLLBACK TO s", "stored function"),
        ("SAVEPOINT s; 1; SAVEPOINT S; 2; 3; SAVEPOINT t; ROLLBACK TO s", "stored function"),
        # Or that of a function that a function called.
        ("1; SAVEPOINT s; 2; SAVEPOINT s; 3-; ROLLBACK TO s", "stored function"),
        ("SAVEPOINT `é`; 1; SAVEPOINT `É`; 2; ROLLBACK TO `É`; 3", "collation"),
        ("SAVEPOINT `s; 1", "cannot be read"),
        ("SAVEPOINT `a````b`; 1; SAVEPOINT `a``b`; 2; ROLLBACK TO `a``b`", "either of two"),
    ],
)
def test_refused_by_name(program: str, why: str) -> None:
    with pytest.raises(DataLossError, match=why):
        _run(program)


def test_servers_that_mix_engines() -> None:
    """Before 5.5 rows of tables without transactions stand among the others, and would stay."""
    old = StatementContext(version=(5, 1, 73))
    with pytest.raises(DataLossError, match=r"5\.1\.73: rows after the savepoint stay"):
        _run("1; SAVEPOINT s; 2; ROLLBACK TO s", old)
    assert _run("1; SAVEPOINT s; ROLLBACK TO s; 2", old) == "12"


def test_rows_that_were_delivered_before() -> None:
    """A position that an earlier version saved behind rows that are taken back."""
    program = "1; SAVEPOINT s; 2; 3; ROLLBACK TO s; 4"
    for event_index in (0, 1, 5, 6):
        assert _run(program, resume=Position("b.1", 4, None, event_index)) == "14"
    for event_index in (2, 3, 4):
        with pytest.raises(DataLossError, match="delivered before"):
            _run(program, resume=Position("b.1", 4, None, event_index))


@pytest.mark.parametrize(
    ("query", "role"),
    [
        (b"ROLLBACK", EventClass.ROLLBACK),
        (b"rollback work", EventClass.ROLLBACK),
        (b"ROLLBACK /* TO s */", EventClass.ROLLBACK),
        (b"ROLLBACK TO `s`", EventClass.STATEMENT),
        (b"ROLLBACK WORK TO SAVEPOINT s", EventClass.STATEMENT),
        (b"rollback\n work\tto s", EventClass.STATEMENT),
        (b"ROLLBACK/**/TO s", EventClass.STATEMENT),
        (b"ROLLBACK " + b"/* */" * 5000, EventClass.ROLLBACK),
        (b"SAVEPOINT `s`", EventClass.STATEMENT),
    ],
)
def test_role(query: bytes, role: EventClass) -> None:
    assert query_class(query) is role


@pytest.mark.parametrize("query", [b"ROLLBACK", b"rollback work", b"ROLLBACK AND NO CHAIN"])
def test_a_rollback_of_all_is_nothing_of_a_savepoint(query: bytes) -> None:
    assert _read(query, StatementContext("d")) == (None, ())
