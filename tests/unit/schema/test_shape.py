"""Table shapes from table maps that real servers wrote."""

import pytest

from replica_client.errors import BinlogDecodeError, SchemaMismatchError
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.schema.shape import ColumnDefinition, TableShape


def field(code: int, value: bytes) -> bytes:
    return bytes((code, len(value))) + value


def strings(*names: str) -> bytes:
    return b"".join(bytes((len(name.encode()),)) + name.encode() for name in names)


# a VARCHAR(10) latin1, g GEOMETRY, p POINT, b CHAR(5) utf8, e ENUM('x','ü') latin1,
# s SET('a') utf8, c TEXT latin1, d BLOB, n INT UNSIGNED, y YEAR
TYPES = (15, 255, 255, 254, 254, 254, 252, 252, 3, 13)
METADATA = (10, 4, 4, 0x0FFE, 0x1F7, 0x1F8, 2, 2, 0, 0)
NAMES = ("a", "g", "p", "b", "e", "s", "c", "d", "n", "y")
# As MySQL 9.7.4 and MariaDB 10.11.18 write them: MariaDB counts GEOMETRY among the strings.
MYSQL_CHARSETS = field(3, bytes((8, 33, 8, 63)))
MARIADB_CHARSETS = field(3, bytes((8, 63, 63, 33, 8, 63)))
COMMON = (
    field(1, b"\xc0")
    + field(4, strings(*NAMES))
    + field(5, b"\x01" + strings("a"))
    + field(6, b"\x02\x01x\x01\xfc")
    + field(7, b"\x00\x01")
    + field(9, b"\x08\x00\x00\x03")
    + field(11, b"\x08\x21")
)


def table_map(
    optional: bytes, types: tuple[int, ...] = TYPES, metadata: tuple[int, ...] = METADATA
):
    return TableMapEvent(7, 1, "shop", "things", bytes(types), metadata, b"\xfd\x03", optional)


@pytest.mark.parametrize(
    ("optional", "flavor"),
    [
        (COMMON + MYSQL_CHARSETS, ServerFlavor.MYSQL),
        (COMMON + MARIADB_CHARSETS, ServerFlavor.MARIADB),
        (COMMON + MYSQL_CHARSETS, None),
        (COMMON + MARIADB_CHARSETS, None),
        (COMMON + field(2, bytes((8, 1, 33, 3, 63))), ServerFlavor.MYSQL),
        (COMMON + field(2, bytes((8, 1, 63, 2, 63, 3, 33, 5, 63))), ServerFlavor.MARIADB),
        (COMMON + field(2, bytes((8, 1, 63, 2, 63, 3, 33, 5, 63))), None),
    ],
)
def test_full_metadata(optional: bytes, flavor: ServerFlavor | None) -> None:
    shape = TableShape.from_table_map(table_map(optional), flavor)
    assert (shape.database, shape.table) == ("shop", "things")
    assert shape.column_names == NAMES
    assert shape.names_resolved
    by_name = {column.name: column for column in shape.columns}
    collations = {name: by_name[name].collation_id for name in "abescd"}
    assert collations == {"a": 8, "b": 33, "e": 8, "s": 33, "c": 8, "d": 63}
    assert by_name["e"].labels == ("x", "ü")
    assert by_name["e"].type_code == T.MYSQL_TYPE_ENUM
    assert by_name["s"].labels == ("a",)
    assert (by_name["g"].geometry_type, by_name["p"].geometry_type) == (0, 1)
    assert by_name["n"].unsigned is True
    assert by_name["y"].unsigned is True
    assert by_name["a"].unsigned is None
    assert [column.nullable for column in shape.columns] == [True, False] + [True] * 8
    assert by_name["b"].length == 15
    assert shape.primary_key == (8, 0)
    assert by_name["a"].primary_key_prefix == 3


def test_no_metadata() -> None:
    shape = TableShape.from_table_map(table_map(b""))
    assert shape.column_names[:2] == ("col_1", "col_2")
    assert not shape.names_resolved
    assert shape.primary_key == ()
    assert all(column.collation_id is None for column in shape.columns)
    assert all(column.unsigned is None and column.labels is None for column in shape.columns)


def test_minimal_metadata_keeps_signedness_and_character_sets() -> None:
    shape = TableShape.from_table_map(table_map(field(1, b"\xc0") + MYSQL_CHARSETS))
    assert shape.columns[0].name == "col_1"
    assert shape.columns[0].collation_id == 8
    assert shape.columns[8].unsigned is True


def test_mysql_counts_vector_among_the_strings() -> None:
    optional = field(2, bytes((45, 0, 63))) + field(13, b"\x03")
    event = table_map(optional, (242, 15), (4, 80))
    shape = TableShape.from_table_map(event, ServerFlavor.MYSQL)
    assert [column.collation_id for column in shape.columns] == [63, 45]
    assert shape.columns[0].vector_dimension == 3


def test_decimal_and_fractions() -> None:
    shape = TableShape.from_table_map(table_map(b"", (246, 18, 16), (0x1E41, 6, 0x0107)))
    decimal, datetime, bit = shape.columns
    assert (decimal.length, decimal.scale) == (65, 30)
    assert datetime.fraction_digits == 6
    assert bit.length == 15


def test_invisible_columns() -> None:
    event = table_map(field(12, b"\x40"), (3, 3), (0, 0))
    assert [c.visible for c in TableShape.from_table_map(event).columns] == [False, True]


@pytest.mark.parametrize(
    "optional",
    [
        field(3, bytes((8, 33))),  # too few
        field(2, bytes((8, 9, 33))),  # exception beyond the last column
        field(6, b"\x02\x01x\x01y" * 2),  # labels of two ENUM columns
        field(7, b"\x00"),
        COMMON + MYSQL_CHARSETS + field(4, strings(*"abcdefghii")),  # a name twice
        field(4, b"\x01\xff" * 10),  # not UTF-8
        field(6, b"\x01\x01\xff") + field(11, b"\xff\xff"),
        field(6, b"\x01\x01x") + field(10, b"\xfc\xff\x7f"),  # no such collation
    ],
)
def test_metadata_that_does_not_fit_is_refused(optional: bytes) -> None:
    with pytest.raises(BinlogDecodeError):
        TableShape.from_table_map(table_map(optional), ServerFlavor.MYSQL)


def test_labels_that_are_no_text_are_not_known() -> None:
    # What CONVERT TO leaves of labels outside of ASCII.
    event = table_map(field(6, b"\x01\x01\xff") + field(10, b"\x21"), (254,), (0x1F7,))
    [column] = TableShape.from_table_map(event).columns
    assert column.labels is None


def test_definitions_fill_in_what_is_not_known() -> None:
    event = table_map(b"", (3, 254, 254, 11), (0, 0x1F7, 0x10FE, 0))
    shape = TableShape.from_table_map(event).resolved_with(
        [
            ColumnDefinition("id", unsigned=True, primary_key_index=0),
            ColumnDefinition("colour", collation_id=8, labels=("red", "blue")),
            ColumnDefinition("uid", collation_id=63, logical_type="uuid", visible=False),
            ColumnDefinition("t", fraction_digits=3),
        ]
    )
    identity, colour, uid, clock = shape.columns
    assert shape.column_names == ("id", "colour", "uid", "t")
    assert shape.names_resolved
    assert shape.primary_key == (0,)
    assert identity.unsigned is True
    assert colour.labels == ("red", "blue")
    assert (uid.logical_type, uid.visible, uid.length) == ("uuid", False, 16)
    assert clock.fraction_digits == 3


def test_the_binlog_wins_over_definitions() -> None:
    shape = TableShape.from_table_map(table_map(COMMON + MYSQL_CHARSETS))
    other = [
        ColumnDefinition(name, unsigned=False, collation_id=45, labels=("q",)) for name in NAMES
    ]
    resolved = shape.resolved_with(other)
    assert resolved.columns[8].unsigned is True
    assert resolved.columns[0].collation_id == 8
    assert resolved.columns[4].labels == ("x", "ü")


def test_definitions_that_do_not_fit_are_refused() -> None:
    shape = TableShape.from_table_map(table_map(COMMON + MYSQL_CHARSETS))
    with pytest.raises(SchemaMismatchError, match="10 columns"):
        shape.resolved_with([ColumnDefinition("a")])
    with pytest.raises(SchemaMismatchError, match="column a "):
        shape.resolved_with([ColumnDefinition(name) for name in reversed(NAMES)])
