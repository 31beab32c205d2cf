"""A CREATE TABLE that the server wrote under an SQL mode which leaves character sets out."""

from __future__ import annotations

import struct

import pytest

from replica_client.protocol.binlog.context import BinlogFormat
from replica_client.schema.ddl.steps import CreateTable, NotUnderstood
from replica_client.stream.transactions.query_text import Provenance, ReadQuery, read_query
from tests.unit.schema.test_temporary_tables import query_event

OF_QUERY, ALONE, UNKNOWN = Provenance(True, True), Provenance(False, True), Provenance()
ORACLE, ANSI, MYSQL40, NO_TABLE_OPTIONS, PLAIN = 0x200, 0x40000, 0x20000, 0x4000, 0
MARIADB, OLD, NEW = "11.8.9-MariaDB-log", "5.6.24-log", "9.7.4"


def _read(version: str, mode: int, columns: bytes, options: bytes, around: Provenance) -> ReadQuery:
    text = b"CREATE TABLE `t` (\n  " + columns + b"\n)" + options
    charsets = bytes([4]) + struct.pack("<3H", 45, 45, 45)
    event = query_event(text, False, bytes([1]) + struct.pack("<Q", mode) + charsets)
    return read_query(event, BinlogFormat(server_version=version), around)


def _understood(read: ReadQuery) -> str:
    """Return ``known``, ``unknown charset`` or the reason of a statement that is not understood."""
    if isinstance(read.meaning, NotUnderstood):
        return read.meaning.reason
    assert isinstance(read.meaning, CreateTable)
    return "unknown charset" if read.meaning.charset_unknown else "known"


TEXT, INT = b"`a` int(11) DEFAULT NULL,\n  `b` text DEFAULT NULL", b"`a` int(11) DEFAULT NULL"
OWN = b"`b` text CHARACTER SET greek DEFAULT NULL"
TABLE_LOST = "the server wrote b without the character set of its table"
COLUMN_LOST = "the server wrote b without its character set"


@pytest.mark.parametrize("mode", [ORACLE, ANSI, NO_TABLE_OPTIONS])
@pytest.mark.parametrize(
    ("version", "columns", "options", "expected"),
    [
        (MARIADB, TEXT, b"", TABLE_LOST),
        (OLD, TEXT, b"", TABLE_LOST),
        # Table maps of MySQL 8.0.1 and newer have the character sets.
        (NEW, TEXT, b"", "unknown charset"),
        # No column has the table's, but one that is added later may.
        (MARIADB, INT, b"", "unknown charset"),
        (MARIADB, OWN, b"", "unknown charset"),
        (MARIADB, TEXT, b" DEFAULT CHARSET=greek", "known"),
    ],
)
def test_the_character_set_of_the_table(
    mode: int, version: str, columns: bytes, options: bytes, expected: str
) -> None:
    assert _understood(_read(version, mode, columns, options, OF_QUERY)).startswith(expected)
    # Where the statement is the client's, or the mode hides nothing, all is known.
    if version != NEW:
        assert _understood(_read(version, mode, columns, options, ALONE)) == "known"
    assert _understood(_read(version, PLAIN, columns, options, OF_QUERY)) == "known"


@pytest.mark.parametrize(
    ("version", "columns", "expected"),
    [
        (MARIADB, TEXT, COLUMN_LOST),
        (OLD, TEXT, COLUMN_LOST),
        # A character set that is written is the column's, whatever the mode says.
        (MARIADB, OWN, "known"),
        (MARIADB, INT, "known"),
        (NEW, TEXT, "known"),
    ],
)
def test_the_character_sets_of_columns(version: str, columns: bytes, expected: str) -> None:
    assert _understood(_read(version, MYSQL40, columns, b"", OF_QUERY)).startswith(expected)


@pytest.mark.parametrize("mode", [ORACLE, MYSQL40])
def test_who_wrote_it_is_not_known(mode: int) -> None:
    """Both readings have to agree, but for what table maps say."""
    lost = TABLE_LOST if mode == ORACLE else COLUMN_LOST
    assert _understood(_read(MARIADB, mode, TEXT, b"", UNKNOWN)).startswith(lost)
    assert _understood(_read(MARIADB, ORACLE, INT, b"", UNKNOWN)) == "unknown charset"
    assert _understood(_read(NEW, ORACLE, TEXT, b"", ALONE)) == "unknown charset"
