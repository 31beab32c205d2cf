"""Facts that servers leave out of the binlog: each row of the list, on both sides of its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.errors import SchemaMismatchError, UnknownTableError
from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.schema.left_out import (
    MODE_NO_FIELD_OPTIONS,
    MODE_NO_TABLE_OPTIONS,
    describes_rows,
    hidden_kinds,
    is_doubtful_name,
    unwritten_parts,
)
from replica_client.schema.model import TableModel
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.transactions.schema_tracking import SchemaTracker, UnknownTablePolicy
from tests.unit.schema.tables import MARIADB as MARIADB_CONTEXT, MYSQL as MYSQL_CONTEXT, history_of

MARIADB, MYSQL = ServerFlavor.MARIADB, ServerFlavor.MYSQL
STRING, VARCHAR, UTF8, BINARY = 254, 15, 45, 63


def column(code: int, length: int, collation: int | None = BINARY, **members) -> ColumnShape:
    return ColumnShape("c", code, length=length, collation_id=collation, **members)


@pytest.mark.parametrize(
    ("code", "length", "version", "kinds"),
    [
        (STRING, 16, (10, 4, 99), ()),
        (STRING, 16, (10, 5, 0), ("inet6",)),
        (STRING, 16, (10, 6, 99), ("inet6",)),
        (STRING, 16, (10, 7, 0), ("inet6", "uuid")),
        (STRING, 16, (0, 0, 0), ("inet6", "uuid")),
        (STRING, 15, (11, 8, 9), ()),
        (STRING, 17, (11, 8, 9), ()),
        (STRING, 4, (10, 9, 99), ()),
        (STRING, 4, (10, 10, 0), ("inet4",)),
        (STRING, 4, (0, 0, 0), ("inet4",)),
        (VARCHAR, 16, (11, 6, 99), ()),
        (VARCHAR, 16, (11, 7, 0), ("vector",)),
        (VARCHAR, 16, (0, 0, 0), ("vector",)),
        (VARCHAR, 15, (11, 8, 9), ()),
        (VARCHAR, 0, (11, 8, 9), ()),
        (VARCHAR, 65532, (11, 8, 9), ("vector",)),
        (VARCHAR, 4, (11, 8, 9), ("vector",)),
    ],
)
def test_kinds_that_full_metadata_of_mariadb_hides(code, length, version, kinds) -> None:
    assert hidden_kinds(column(code, length), MARIADB, version) == kinds
    assert hidden_kinds(column(code, length), MYSQL, version) == ()
    assert hidden_kinds(column(code, length, UTF8), MARIADB, version) == ()
    shape = TableShape("d", "t", (column(code, length),))
    assert describes_rows(shape, MARIADB, version) is not bool(kinds)
    assert describes_rows(shape, MYSQL, version)


def test_a_definition_says_what_the_table_map_hides() -> None:
    known = history_of("CREATE TABLE t (c BINARY(16))", context=MARIADB_CONTEXT).table(("d", "t"))
    seen = column(STRING, 16, definition=known.columns[0])
    assert hidden_kinds(seen, MARIADB, (11, 8, 9)) == ()


@pytest.mark.parametrize(
    ("seen", "is_described"),
    [
        (ColumnShape("a", 3, unsigned=False), True),
        (ColumnShape("a", 3), False),
        (ColumnShape("a", 3, unsigned=False, resolved=False), False),
        (ColumnShape("a", 247, collation_id=8), False),
        (ColumnShape("a", 247, labels=("x",)), False),
        (ColumnShape("a", 247, collation_id=8, labels=("x",)), True),
        (ColumnShape("a", 248, collation_id=8), False),
        (ColumnShape("a", 15), False),
        (ColumnShape("a", 252), False),
        (ColumnShape("a", 252, collation_id=8), True),
        (ColumnShape("a", 10), True),
    ],
)
def test_facts_that_metadata_leaves_out(seen: ColumnShape, is_described: bool) -> None:
    whole = ColumnShape("b", 10)
    for flavor in (MYSQL, MARIADB):
        assert describes_rows(TableShape("d", "t", (whole, seen)), flavor) is is_described


MODES = {
    "POSTGRESQL": 0x100,
    "ORACLE": 0x200,
    "MSSQL": 0x400,
    "DB2": 0x800,
    "MAXDB": 0x1000,
    "ANSI": 0x40000,
    "NO_TABLE_OPTIONS": MODE_NO_TABLE_OPTIONS,
}


@pytest.mark.parametrize("mode", MODES)
def test_modes_that_hide_the_table_options(mode: str) -> None:
    for flavor, version in ((MARIADB, (11, 8, 9)), (MYSQL, (9, 7, 4)), (MYSQL, (5, 6, 24))):
        assert unwritten_parts(MODES[mode], flavor, version) == {"table charset"}


@pytest.mark.parametrize("mode", [0x10000, 0x20000])
def test_modes_that_hide_the_character_sets_of_columns(mode: int) -> None:
    assert "column charset" in unwritten_parts(mode, MARIADB, (11, 8, 9))
    assert "column charset" in unwritten_parts(mode, MYSQL, (5, 7, 44))
    assert unwritten_parts(mode, MYSQL, (8, 0, 0)) == frozenset()


@pytest.mark.parametrize("mode", [0, 0x4, 0x2000, MODE_NO_FIELD_OPTIONS, 0x100000, 0x200000])
def test_modes_that_hide_nothing(mode: int) -> None:
    for flavor in (MARIADB, MYSQL):
        assert unwritten_parts(mode, flavor, (5, 6, 24)) == frozenset()


def test_names_of_character_sets_whose_meaning_a_setting_changes() -> None:
    assert not is_doubtful_name("utf8", MARIADB, (10, 6, 0))
    assert is_doubtful_name("UTF8", MARIADB, (10, 6, 1))
    assert is_doubtful_name("utf8", MARIADB)
    assert not is_doubtful_name("utf8", MYSQL, (9, 7, 4))
    assert not is_doubtful_name("utf8mb4", MARIADB, (11, 8, 9))


# CREATE TABLE d.t (id INT, u BINARY(16)) with FULL metadata, as MariaDB writes it; UUID and INET6 look so, too.
TABLE_MAP = TableMapEvent(
    table_id=1,
    flags=0,
    schema="d",
    table="t",
    column_types=bytes([3, STRING]),
    column_metadata=(0, 0x10FE),
    null_bitmap=b"\x03",
    optional_metadata=bytes.fromhex("010100" + "02013f" + "0405" + "026964" + "0175"),
)
FULL = BinlogFormat(server_version="11.8.9-MariaDB-log")


def test_a_hidden_type_is_refused_by_name_or_taken_as_bytes_or_known() -> None:
    with pytest.raises(UnknownTableError, match=r"d\.t: .* type of u \(INET6 or UUID or binary\)"):
        SchemaTracker(SchemaHistory(), Selection()).shape(TABLE_MAP, FULL)
    with pytest.raises(UnknownTableError, match="type of u"):
        SchemaTracker(SchemaHistory(), Selection(), "error").shape(TABLE_MAP, FULL)
    taken = SchemaTracker(SchemaHistory(), Selection(), "positional").shape(TABLE_MAP, FULL)
    assert [one.logical_type for one in taken.columns] == [None, None]
    for kind, logical in (("UUID", "uuid"), ("INET6", "inet6"), ("BINARY(16)", None)):
        history = history_of(f"CREATE TABLE t (id INT, u {kind})", context=MARIADB_CONTEXT)
        tracker = SchemaTracker(history, Selection())
        assert tracker.shape(TABLE_MAP, FULL).columns[1].logical_type == logical
        assert not tracker.needs_proof(TABLE_MAP, FULL)
    mysql = BinlogFormat(server_version="9.7.4")
    assert SchemaTracker(SchemaHistory(), Selection(), "error").shape(TABLE_MAP, mysql)


def test_a_hidden_type_is_asked_for_and_left_to_the_full_decoder() -> None:
    tracker = SchemaTracker(SchemaHistory(), Selection())
    assert tracker.needs_proof(TABLE_MAP, FULL)
    assert tracker.undoubted_shape(TABLE_MAP, FULL) is None
    old = BinlogFormat(server_version="10.4.34-MariaDB-log")
    assert not tracker.needs_proof(TABLE_MAP, old)
    assert tracker.undoubted_shape(TABLE_MAP, old) is not None


def test_columns_that_nobody_wants_are_not_refused() -> None:
    tracker = SchemaTracker(SchemaHistory(), Selection(columns={"d.t": ["id"]}))
    assert tracker.shape(TABLE_MAP, FULL).column_names == ("id", "u")


def test_a_history_that_contradicts_the_table_map_is_no_reason_to_believe_it() -> None:
    history = history_of("CREATE TABLE t (id INT, other UUID)", context=MARIADB_CONTEXT)
    with pytest.raises(SchemaMismatchError, match="name 'u' is not 'other'"):
        SchemaTracker(history, Selection()).shape(TABLE_MAP, FULL)


def _bare(*columns: tuple[int, int]) -> TableMapEvent:
    """A table map of ``x.t`` that has type codes and sizes only, as MySQL 5.6 writes it."""
    codes, metadata = zip(*columns, strict=True)
    return TableMapEvent(
        table_id=1,
        flags=0,
        schema="x",
        table="t",
        column_types=bytes(codes),
        column_metadata=metadata,
        null_bitmap=bytes([(1 << len(columns)) - 1]),
        optional_metadata=b"",
    )


BLOB, OLD = 252, BinlogFormat(server_version="5.6.24-log")
OLD_CONTEXT = replace(MYSQL_CONTEXT, version=(5, 6, 24), server_charset="latin1")
NO_CHARSET = r"x\.t: the character set of its text is not known"


def _tracker(create: str, policy: UnknownTablePolicy | None = "error") -> SchemaTracker:
    return SchemaTracker(history_of(create, context=OLD_CONTEXT), Selection(), policy)


@pytest.mark.parametrize(
    ("create", "table_map", "is_known"),
    [
        # The default of a database whose CREATE was not read.
        ("CREATE TABLE x.t (c TEXT)", _bare((BLOB, 2)), False),
        ("CREATE TABLE x.t (c VARCHAR(9))", _bare((VARCHAR, 27)), False),
        ("CREATE TABLE x.t (c TEXT) CHARSET greek", _bare((BLOB, 2)), True),
        ("CREATE TABLE x.t (c BLOB)", _bare((BLOB, 2)), True),
    ],
)
def test_a_character_set_that_nothing_proves(
    create: str, table_map: TableMapEvent, is_known: bool
) -> None:
    """The source is asked; without an answer the table is refused, unless its bytes are wanted."""
    tracker = _tracker(create)
    assert tracker.needs_proof(table_map, OLD) is not is_known
    assert (tracker.undoubted_shape(table_map, OLD) is not None) is is_known
    if is_known:
        assert tracker.shape(table_map, OLD).column_names == ("c",)
    else:
        with pytest.raises(UnknownTableError, match=NO_CHARSET):
            tracker.shape(table_map, OLD)
        for policy in (None, "positional"):
            assert _tracker(create, policy).shape(table_map, OLD).columns[0].collation_id is None


def test_labels_in_doubt_are_asked_for_once() -> None:
    create = "CREATE TABLE x.t (e ENUM('?', 'a') CHARSET utf8mb4)"
    table_map = _bare((STRING, 0x01F7))
    assert not _tracker(create).needs_proof(table_map, OLD)
    doubtful = _tracker(create)
    (model,) = [doubtful.history.table(("x", "t"))]
    assert isinstance(model, TableModel)
    in_doubt = replace(model, columns=(replace(model.columns[0], unknown_labels=(1,)),))
    doubtful.history.set_table(("x", "t"), in_doubt)
    assert doubtful.needs_proof(table_map, OLD)
    assert doubtful.undoubted_shape(table_map, OLD) is None
    # What the source does not tell either stays in doubt, without another question.
    doubtful.history.adopt(in_doubt)
    assert not doubtful.needs_proof(table_map, OLD)
    assert doubtful.undoubted_shape(table_map, OLD) is not None


def test_a_table_that_nothing_describes() -> None:
    table_map = _bare((3, 0))
    for create in ("CREATE TABLE x.other (a INT)", "DROP TABLE x.t"):
        assert _tracker(create).needs_proof(table_map, OLD)
        assert _tracker(create).undoubted_shape(table_map, OLD) is None
        with pytest.raises(
            UnknownTableError, match=r"x\.t: the names of its columns are not known"
        ):
            _tracker(create).shape(table_map, OLD)
        for policy in (None, "positional"):
            assert _tracker(create, policy).shape(table_map, OLD).column_names == ("col_1",)
