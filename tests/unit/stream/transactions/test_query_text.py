"""A CREATE TABLE that the server wrote under an SQL mode which leaves character sets out."""

from __future__ import annotations

import struct

import pytest

from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.schema.ddl.steps import CreateTable, NotUnderstood
from replica_client.stream.transactions.query_text import Provenance, ReadQuery, read_query
from tests.unit.schema.test_temporary_tables import query_event

OF_QUERY, ALONE, UNKNOWN = Provenance(True, True), Provenance(False, True), Provenance()
ORACLE, ANSI, MYSQL40, MAXDB = 0x200, 0x40000, 0x20000, 0x1000
NO_TABLE_OPTIONS, PLAIN = 0x4000, 0
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
LABELS = b"`b` enum('\xd0\xb6','?') DEFAULT NULL"


@pytest.mark.parametrize("mode", [ORACLE, ANSI, NO_TABLE_OPTIONS])
@pytest.mark.parametrize(
    ("version", "columns", "options", "expected"),
    [
        (MARIADB, TEXT, b"", "unknown charset"),
        (OLD, TEXT, b"", "unknown charset"),
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


@pytest.mark.parametrize("columns", [TEXT, OWN, INT])
def test_the_character_sets_of_columns(columns: bytes) -> None:
    for version in (MARIADB, OLD):
        read = _read(version, MYSQL40, columns, b" DEFAULT CHARSET=greek", OF_QUERY)
        assert _understood(read) == "unknown charset"
    assert _understood(_read(NEW, MYSQL40, columns, b"", OF_QUERY)) == "known"


@pytest.mark.parametrize("mode", [ORACLE, MYSQL40])
def test_who_wrote_it_is_not_known(mode: int) -> None:
    """Both readings have to agree, but for character sets."""
    for columns in (TEXT, INT):
        assert _understood(_read(MARIADB, mode, columns, b"", UNKNOWN)) == "unknown charset"
    assert _understood(_read(NEW, ORACLE, TEXT, b"", ALONE)) == "unknown charset"


@pytest.mark.parametrize("mode", [ORACLE, ANSI, MYSQL40])
@pytest.mark.parametrize("version", [MARIADB, OLD])
def test_one_unproven_column_leaves_the_others_known(mode: int, version: str) -> None:
    """Names, signs and what has a character set of its own are known; labels are, if the server wrote them."""
    columns = b"`a` int(10) unsigned DEFAULT NULL,\n  `c` text DEFAULT NULL,\n  " + LABELS
    for around in (OF_QUERY, UNKNOWN):
        meaning = _read(version, mode, columns, b"", around).meaning
        assert isinstance(meaning, CreateTable)
        number, text, label = (one.model(None) for one in meaning.columns)
        assert (number.name, number.unsigned) == ("a", True)
        assert (text.name, text.charset) == ("c", None)
        assert (label.labels, label.unknown_labels) == (("\u0436", "?"), (2,))
        is_written = around is OF_QUERY
        assert label.has_doubtful_labels != is_written
        assert label.in_charset("latin1").labels == (("\u0436" if is_written else "?"), "?")


@pytest.mark.parametrize(("version", "mode"), [(OLD, MAXDB), (MARIADB, MAXDB), (MARIADB, ORACLE)])
def test_types_of_the_servers_own_text_have_their_usual_meaning(version: str, mode: int) -> None:
    """A replica in this mode would read others; MariaDB names the schema where it matters."""
    columns = b"`a` timestamp NULL DEFAULT NULL,\n  `b` date DEFAULT NULL,\n  `c` datetime"
    kinds = {}
    for around in (OF_QUERY, ALONE):
        meaning = _read(version, mode, columns, b"", around).meaning
        assert isinstance(meaning, CreateTable)
        kinds[around] = [one.model(None).kind for one in meaning.columns]
    assert kinds[OF_QUERY] == ["timestamp", "date", "datetime"]
    assert kinds[ALONE] != kinds[OF_QUERY]
