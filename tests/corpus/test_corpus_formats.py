"""Encrypted files, permuted type numbers, old formats and published fixtures of the corpus."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import BinlogDecodeError, EncryptedBinlogError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.encryption import (
    ENCRYPTION_HEADER_SIZE,
    EncryptionHeader,
    decrypt_file as decrypt_mysql_file,
    read_keys,
)
from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat, DecodeOptions
from replica_client.protocol.binlog.events import (
    CreateFileEvent,
    ExecuteLoadQueryEvent,
    IncidentEvent,
    IntvarEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    PartialUpdateRowsEvent,
    QueryEvent,
    RowsEvent,
    StartEventV3,
    TableMapEvent,
    TransactionPayloadEvent,
    UserVarEvent,
    XaPrepareEvent,
)
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import TableShape
from tests.corpus.binlogs import CORPUS, require_corpus
from tests.header_scan import HeaderScan
from tests.unit.protocol.binlog.events.seed import NO_CHECKSUM, whole_event

T = EventType
MARIADB = BinlogFormat(
    4,
    "10.0.13-MariaDB",
    19,
    bytes(159) + bytes((0, 4, 19, 4, 0)),
    ChecksumAlgorithm.OFF,
)
MYSQL_ENCRYPTED = "mysql-testsuite-9.7.4/rpl_nogtid_encryption_master-bin.000002"
MYSQL_KEYRING = "mysql-testsuite-9.7.4/rpl_nogtid_encryption_keyring_master"
MARIADB_ENCRYPTED = "mariadb-test-data-11.8.9/binlog_before_20574.bin"
MARIADB_KEYS = "mariadb-test-data-11.8.9/keys.txt"


@pytest.fixture(scope="module", autouse=True)
def _corpus_is_there() -> None:
    require_corpus()


def load(name: str) -> bytes:
    return (CORPUS / name).read_bytes()


def read(name: str, keys: dict[str, bytes] | None = None) -> list[BinlogEvent]:
    data = load(name)
    decoder = BinlogDecoder(DecodeOptions(keys=keys or {}), name)
    return [
        decoder.decode(data[position : position + header.event_size], position)
        for position, header in HeaderScan(data)
    ]


def bodies(events: list[BinlogEvent], kind: type[Any]) -> list[Any]:
    return [event.body for event in events if type(event.body) is kind]


def test_mysql_encrypted_file() -> None:
    keys = read_keys(load(MYSQL_KEYRING))
    plain = decrypt_mysql_file(load(MYSQL_ENCRYPTED), keys)
    assert plain == load(
        "derived-plaintext/mysql_rpl_nogtid_encryption_master-bin.000002.decrypted"
    )
    header = EncryptionHeader.decode(load(MYSQL_ENCRYPTED)[:ENCRYPTION_HEADER_SIZE])
    assert header.key_id in keys
    assert header.encode() == load(MYSQL_ENCRYPTED)[:ENCRYPTION_HEADER_SIZE]
    cipher = header.open(keys)
    assert header.encode() + cipher.apply(plain, 0) == load(MYSQL_ENCRYPTED)


def test_mysql_encrypted_file_without_its_key() -> None:
    keys = read_keys(load(MYSQL_KEYRING))
    del keys[EncryptionHeader.decode(load(MYSQL_ENCRYPTED)).key_id]
    with pytest.raises(EncryptedBinlogError, match="MySQLReplicationKey_00508583"):
        decrypt_mysql_file(load(MYSQL_ENCRYPTED), keys)


def test_mariadb_encrypted_file() -> None:
    keys = read_keys(load(MARIADB_KEYS))
    data = load(MARIADB_ENCRYPTED)
    decoder = BinlogDecoder(DecodeOptions(keys=keys))
    plain = data[:4]
    for position, header in HeaderScan(data):
        raw = data[position : position + header.event_size]
        one = decoder.decrypted(raw, position)
        event = decoder.decode(raw, position)
        assert encode_event(event, decoder.format) == one
        plain += one
    assert plain == load("derived-plaintext/mariadb_binlog_before_20574.decrypted.bin")


def test_mariadb_encrypted_file_without_its_key() -> None:
    keys = read_keys(load(MARIADB_KEYS))
    for given, reason in (({}, "was not given"), ({"1": keys["6"]}, "does not decrypt")):
        with pytest.raises(EncryptedBinlogError, match=reason) as caught:
            read(MARIADB_ENCRYPTED, given)
        assert (caught.value.file, caught.value.position) == (MARIADB_ENCRYPTED, 296)


def test_mariadb_key_file() -> None:
    keys = read_keys(load(MARIADB_KEYS))
    assert set(keys) == {"1", "2", "33", "4", "5", "6", "10"}
    assert len(keys["4"]) == 24


def test_permuted_type_numbers_by_rows() -> None:
    events = read("mysql-testsuite-9.7.4/binlog/ver_5_1-wl2325_r.001")
    assert [event.header.type_code for event in events] == [
        T.FORMAT_DESCRIPTION_EVENT,
        T.QUERY_EVENT,
        T.QUERY_EVENT,
        T.QUERY_EVENT,
        T.TABLE_MAP_EVENT,
        T.PRE_GA_WRITE_ROWS_EVENT,
        T.TABLE_MAP_EVENT,
        T.PRE_GA_UPDATE_ROWS_EVENT,
        T.TABLE_MAP_EVENT,
        T.PRE_GA_DELETE_ROWS_EVENT,
        T.STOP_EVENT,
    ]
    assert {(table.schema, table.table) for table in bodies(events, TableMapEvent)} == {
        ("test", "t1")
    }
    insert, update, delete = bodies(events, RowsEvent)
    assert (insert.kind, update.kind, delete.kind) == ("insert", "update", "delete")
    assert insert.rows == b"\xf9\0\0\0\0\3one\xf9\1\0\0\0\3two"


def test_permuted_type_numbers_by_statement() -> None:
    events = read("mysql-testsuite-9.7.4/binlog/ver_5_1-wl2325_s.001")
    names = [event.header.type_name for event in events]
    assert not any("ROWS" in name or "TABLE_MAP" in name for name in names)
    (load_query,) = bodies(events, ExecuteLoadQueryEvent)
    assert load_query.query == b"LOAD DATA INFILE 'big_file.dat' INTO TABLE t3"
    name = load_query.query[load_query.file_name_start : load_query.file_name_end]
    assert name == b" INFILE 'big_file.dat' INTO"
    (variable,) = bodies(events, UserVarEvent)
    assert (variable.name, variable.value) == (b"x", 4)
    assert names[-4:] == [
        "BEGIN_LOAD_QUERY_EVENT",
        "APPEND_BLOCK_EVENT",
        "EXECUTE_LOAD_QUERY_EVENT",
        "STOP_EVENT",
    ]


def test_pre_ga_rows() -> None:
    events = read("mariadb-test-data-10.11.19/binlog/ver_5_1_17.001")
    rows = bodies(events, RowsEvent)
    assert [one.kind for one in rows] == ["insert", "update", "delete"]
    assert {one.version for one in rows} == {0}
    assert all(one.columns_after is None for one in rows)


def test_binlog_v3_with_load_data() -> None:
    events = read("mysql-testsuite-5.7.42/binlog/binlog_old_version_4_1.000001")
    assert isinstance(events[0].body, StartEventV3)
    assert events[0].body.version_text == "4.1.24-debug-log"
    (create,) = bodies(events, CreateFileEvent)
    assert (create.schema, create.table) == (b"test", b"t3")
    assert create.block
    (variable,) = bodies(events, UserVarEvent)
    assert variable.value is not None
    assert [one.header.type_name for one in events].count("APPEND_BLOCK_EVENT") >= 1


def test_binlog_v2() -> None:
    events = read("mysql-testsuite-5.7.42/master-bin.000001")
    assert events[0].body.binlog_version == 2
    assert [event.header.type_code for event in events] == [T.START_EVENT_V3, T.STOP_EVENT]


def test_incident() -> None:
    """The file has a number that no server writes, on purpose (bug 40482)."""
    (incident,) = bodies(read("mysql-testsuite-9.7.4/bug40482-bin.000001"), IncidentEvent)
    assert (incident.incident, incident.name, incident.message) == (66, "INCIDENT_66", b"")


def test_relay_log_with_two_format_descriptions() -> None:
    events = read("mysql-testsuite-9.7.4/rpl_gipk_equivalent_key.000001")
    types = [event.header.type_code for event in events]
    assert types.count(T.FORMAT_DESCRIPTION_EVENT) == 2
    assert bodies(events, RowsEvent)


def test_user_variables_of_5_6() -> None:
    events = read("mysql-testsuite-9.7.4/binlog/bug11747887-bin.000003")
    assert [one.name for one in bodies(events, UserVarEvent)] != []


# --- fixtures ------------------------------------------------------------------------------------


def cases(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((CORPUS / "fixtures" / name).read_text())["cases"]
    return loaded


def decode(type_code: int, text: str, layout: BinlogFormat = NO_CHECKSUM) -> Any:
    data = whole_event(type_code, bytes.fromhex(text), layout)
    event = BinlogDecoder(format=layout).decode(data, 4)
    assert encode_event(event, layout) == data
    return event.body


JAVA = "mysql-binlog-connector-java/"


def test_java_fixtures() -> None:
    (one,) = cases(f"{JAVA}XAPrepareEventDataDeserializerTest.json")
    body = decode(T.XA_PREPARE_LOG_EVENT, one["hex"])
    assert body == XaPrepareEvent(0, 123, b"gtrid", b"bqual")
    (one,) = cases(f"{JAVA}AnnotateRowsEventDataDeserializerTest.json")
    assert decode(T.ANNOTATE_ROWS_EVENT, one["hex"], MARIADB).query == b"INSERT INTO foo set i = 2"
    (one,) = cases(f"{JAVA}MariadbGtidEventDataDeserializerTest.json")
    body = decode(T.GTID_EVENT, one["hex"], MARIADB)
    assert (body.domain_id, body.sequence) == (0, 7404)
    (one,) = cases(f"{JAVA}MariadbGtidListEventDataDeserializerTest.json")
    assert decode(T.GTID_LIST_EVENT, one["hex"], MARIADB).gtids == ((0, 102, 7255),)


def test_java_payload() -> None:
    (one,) = cases(f"{JAVA}TransactionPayloadEventDataDeserializerTest.json")
    body = decode(T.TRANSACTION_PAYLOAD_EVENT, one["hex"])
    assert (body.compression_type, body.payload_size, body.uncompressed_size) == (0, 451, 960)
    decoder = BinlogDecoder(format=NO_CHECKSUM)
    data = whole_event(T.TRANSACTION_PAYLOAD_EVENT, bytes.fromhex(one["hex"]))
    inner = list(decoder.inner_events(decoder.decode(data, 4)))
    assert [event.header.type_code for event in inner] == [2, 19, 31, 16]
    table = inner[1].body
    assert (table.schema, table.table, table.table_id) == ("demo", "movies", 84)


def test_go_mysql_payload() -> None:
    payload = bytes.fromhex(cases("go-mysql/transaction_payload_event_test.json")[1]["hex"])
    body = TransactionPayloadEvent.of(payload, 0, 960)
    fields = tuple(field for field in body.header_fields if field[0] != 3)
    data = whole_event(
        T.TRANSACTION_PAYLOAD_EVENT, TransactionPayloadEvent(fields, payload).encode()
    )
    decoder = BinlogDecoder(format=NO_CHECKSUM)
    inner = list(decoder.inner_events(decoder.decode(data, 4)))
    assert [event.header.type_code for event in inner] == [2, 19, 30, 19, 31, 19, 32, 16]
    assert {event.header.next_position for event in inner} == {0}


def test_go_mysql_events() -> None:
    by_test: dict[str, list[dict[str, Any]]] = {}
    for one in cases("go-mysql/event_test.json"):
        by_test.setdefault(one["test"], []).append(one)
    single, several = by_test["TestMariadbGTIDListEvent"]
    assert decode(T.GTID_LIST_EVENT, single["hex"], MARIADB) == MariadbGtidListEvent(((1, 2, 3),))
    assert decode(T.GTID_LIST_EVENT, several["hex"], MARIADB).gtids == (
        (1, 2, 3),
        (4, 5, 6),
        (7, 8, 9),
    )
    first, second = by_test["TestIntVarEvent"]
    assert decode(T.INTVAR_EVENT, first["hex"]) == IntvarEvent(1, 13)
    assert decode(T.INTVAR_EVENT, second["hex"]) == IntvarEvent(2, 23)


def test_go_mysql_mariadb_gtid() -> None:
    """Wrong at its origin: the flags 0xff announce an XA xid, and the bytes end before one.

    With the two XA bits cleared the expected values come out.
    """
    (one,) = [c for c in cases("go-mysql/event_test.json") if c["test"] == "TestMariadbGTIDEvent"]
    with pytest.raises(BinlogDecodeError):
        decode(T.GTID_EVENT, one["hex"], MARIADB)
    data = bytearray.fromhex(one["hex"])
    data[12] &= 0x3F
    assert decode(T.GTID_EVENT, data.hex(), MARIADB) == MariadbGtidEvent(
        0x0807060504030201, 0x043B012A, 0x3F, 0x1716151413121110
    )


def test_vitess_mariadb_events() -> None:
    by_name = {one["var"]: one["hex"] for one in cases("vitess/binlog_event_mariadb_test.json")}
    decoder = BinlogDecoder()
    for name, sequence, standalone in (
        ("mariadbStandaloneGTIDEvent", 9, True),
        ("mariadbBeginGTIDEvent", 10, False),
    ):
        decoder.decode(bytes.fromhex(by_name["mariadbFormatEvent"]), 4)
        event = decoder.decode(bytes.fromhex(by_name[name]), 300)
        assert (event.body.sequence, event.body.domain_id) == (sequence, 0)
        assert (event.body.is_standalone, event.header.server_id) == (standalone, 62344)
    assert isinstance(
        decoder.decode(bytes.fromhex(by_name["mariadbInsertEvent"]), 400).body, QueryEvent
    )


def test_vitess_partial_updates() -> None:
    found = 0
    for one in cases("vitess/binlog_event_mysql56_test.json"):
        if one["test"] != "TestMySQL56PartialUpdateRowsEvent" or one.get("var") != "rawEvent":
            continue
        data = bytes.fromhex(one["hex"])
        # As the dump protocol's packets have it, the checksum is taken off in some.
        for algorithm in (ChecksumAlgorithm.CRC32, ChecksumAlgorithm.OFF):
            layout = BinlogFormat(checksum_algorithm=algorithm)
            options = DecodeOptions(verify_checksum=False)
            size = int.from_bytes(data[9:13], "little")
            sized = data[:9] + len(data).to_bytes(4, "little") + data[13:]
            event = BinlogDecoder(options, format=layout).decode(sized, 4)
            body = event.body
            assert type(body) is PartialUpdateRowsEvent
            assert (body.kind, body.column_count) == ("update", 3)
            assert size in (len(data), len(data) + 4)
        found += 1
    assert found == 11


def test_decimal_user_variable_of_the_hexdump_listing() -> None:
    """The value in expected/mysqlbinlog_hexdump.result's file, as a number."""
    values = [
        one.value
        for one in bodies(read("mysql-testsuite-9.7.4/binlog/ver_trunk_row_v2.001"), UserVarEvent)
    ]
    assert values
    assert all(isinstance(value, (bytes, int, float, Decimal, type(None))) for value in values)


def test_keys_are_read_from_paths(tmp_path: Path) -> None:
    copy = tmp_path / "keyring"
    copy.write_bytes(load(MYSQL_KEYRING))
    assert read_keys(copy.read_bytes()) == read_keys(load(MYSQL_KEYRING))


PRE_GA_FILES = (
    "mysql-testsuite-9.7.4/binlog/ver_5_1-wl2325_r.001",
    "mariadb-test-data-10.11.19/binlog/ver_5_1_17.001",
    "mariadb-test-data-10.11.19/binlog/ver_5_1-telco.001",
)


@pytest.mark.parametrize("name", PRE_GA_FILES)
def test_pre_ga_row_values(name: str) -> None:
    """The same statements were run in all three: two rows in, both changed, one out."""
    data = load(name)
    decoder = BinlogDecoder(file=name)
    found: list[Any] = []
    for position, header in HeaderScan(data):
        event = decoder.decode(data[position : position + header.event_size], position)
        if isinstance(event.body, RowsEvent):
            shape = TableShape.from_table_map(decoder.table_map(event.body.table_id))
            for before, after in RowImageDecoder(shape, DecodeOptions()).iter_event(event):
                found.append((before and tuple(before), after and tuple(after)))
    assert found == [
        (None, (0, b"one")),
        (None, (1, b"two")),
        ((0, b"one"), (1, b"one")),
        ((1, b"two"), (2, b"two")),
        ((2, b"two"), None),
    ]
