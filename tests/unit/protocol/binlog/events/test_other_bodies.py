"""Event classes beside the core ones: golden bytes, identity, cuts, longer post-headers."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from replica_client.errors import (
    BinlogDecodeError,
    ColumnDecodeError,
    EncodeError,
    LimitExceededError,
    UnsupportedEventError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogFormat, DecodeOptions, EventContext
from replica_client.protocol.binlog.events import (
    EVENT_CLASSES,
    AnnotateRowsEvent,
    AppendBlockEvent,
    BeginLoadQueryEvent,
    BinlogCheckpointEvent,
    CreateFileEvent,
    DeleteFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
    GtidTaggedEvent,
    IgnorableEvent,
    IncidentEvent,
    IntvarEvent,
    LoadEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    PartialUpdateRowsEvent,
    QueryCompressedEvent,
    RandEvent,
    RowsEvent,
    SlaveEvent,
    StartEncryptionEvent,
    StartEventV3,
    TransactionContextEvent,
    TransactionPayloadEvent,
    UserVarEvent,
    ViewChangeEvent,
    XaPrepareEvent,
)
from replica_client.protocol.binlog.events.control import FORMAT_V3
from replica_client.protocol.binlog.events.gtids import MariadbXid
from replica_client.protocol.binlog.events.load import LoadSyntax
from replica_client.protocol.binlog.events.rows import compress_rows, row_images
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.compression import deflate_record
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.unit.protocol.binlog.events.seed import NO_CHECKSUM, whole_event, with_post_header
from tests.unit.protocol.binlog.events.test_bodies import Case, case, decode

T = EventType
MARIADB = BinlogFormat(
    4,
    "11.8.6-MariaDB",
    19,
    bytes(159) + bytes((0, 4, 19, 4, 0, 13, 8, 8, 8, 10, 10, 10)),
    ChecksumAlgorithm.OFF,
)
QUERY_HEAD = "0a000000 02000000 02 5804 0200"
VIEW_ID = b"15010025948416980:1".ljust(40, b"\0")
SID = bytes.fromhex("1a48308fe52d11f198e702fc00000001")
TAGGED = (
    "0274000000023490603d0295035a22c50361029d0304f10300000002040406"
    "0c74616767656408000a040c7f537cbb4fbc6006109d041283120b"
)
VERSION_V3 = b"4.1.24-debug-log".ljust(50, b"\0")
LOAD_HEAD = "01000000 02000000 03000000 01 02 02000000"
NAMES = "0101" + b"a\0b\0t\0db\0".hex()
SYNTAX = LoadSyntax(b",", b"", b"\n", b"", b"\\", 4)
RECORD = deflate_record(b"row images")

CASES = [
    case(
        "start v3",
        T.START_EVENT_V3,
        "0300" + VERSION_V3.hex() + "01020304",
        StartEventV3(3, VERSION_V3, 0x04030201),
        None,
        FORMAT_V3,
    ),
    case("last insert id", T.INTVAR_EVENT, "010d00000000000000", IntvarEvent(1, 13), 0),
    case("insert id", T.INTVAR_EVENT, "021700000000000000", IntvarEvent(2, 23), 0),
    case(
        "rand",
        T.RAND_EVENT,
        "8530300300000000 95d34b2000000000",
        RandEvent(53489797, 541840277),
        0,
    ),
    case(
        "user variable, NULL",
        T.USER_VAR_EVENT,
        "01000000 76 01",
        UserVarEvent(b"v", 1),
        0,
    ),
    case(
        "user variable, text",
        T.USER_VAR_EVENT,
        "01000000 76 00 00 ff000000 02000000 c3bc",
        UserVarEvent(b"v", 0, 0, 255, "ü".encode()),
        0,
    ),
    case(
        "user variable, unsigned",
        T.USER_VAR_EVENT,
        "01000000 76 00 02 08000000 08000000 ffffffffffffffff 01",
        UserVarEvent(b"v", 0, 2, 8, b"\xff" * 8, 1),
        0,
    ),
    case(
        "user variable, MariaDB's type chunk",
        T.USER_VAR_EVENT,
        "01000000 76 00 02 08000000 08000000 0100000000000000 00 0201",
        UserVarEvent(b"v", 0, 2, 8, b"\1" + bytes(7), 0, extra=b"\2\1"),
        0,
    ),
    case(
        "incident",
        T.INCIDENT_EVENT,
        "0100 04" + b"lost".hex(),
        IncidentEvent(1, b"lost"),
        2,
    ),
    case("ignorable", T.IGNORABLE_LOG_EVENT, "0102", IgnorableEvent(b"\1\2")),
    case(
        "slave",
        T.SLAVE_EVENT,
        "0400000000000000 ea0c" + b"host\0bin.1".hex(),
        SlaveEvent(4, 3306, b"host", b"bin.1"),
        0,
    ),
    case(
        "load, old form",
        T.LOAD_EVENT,
        LOAD_HEAD + "2c000a005c 04 0a" + NAMES + b"/f".hex(),
        LoadEvent(
            1,
            2,
            3,
            b"db",
            b"t",
            (b"a", b"b"),
            b"/f",
            LoadSyntax(b",", b"\0", b"\n", b"\0", b"\\", 4, 10),
        ),
        18,
        FORMAT_V3,
    ),
    case(
        "load, new form",
        T.NEW_LOAD_EVENT,
        LOAD_HEAD + "012c 00 010a 00 015c 04" + NAMES + b"/f\0".hex(),
        LoadEvent(1, 2, 3, b"db", b"t", (b"a", b"b"), b"/f\0", SYNTAX),
        18,
        FORMAT_V3,
    ),
    case(
        "create file",
        T.CREATE_FILE_EVENT,
        LOAD_HEAD + "07000000" + "012c 00 010a 00 015c 04" + NAMES + b"/f\0block".hex(),
        CreateFileEvent(1, 2, 3, b"db", b"t", (b"a", b"b"), b"/f", 7, b"block", SYNTAX),
        None,
        FORMAT_V3,
    ),
    case("append block", T.APPEND_BLOCK_EVENT, "07000000 6162", AppendBlockEvent(7, b"ab"), 4),
    case(
        "begin load query",
        T.BEGIN_LOAD_QUERY_EVENT,
        "07000000 6162",
        BeginLoadQueryEvent(7, b"ab"),
        4,
    ),
    case("exec load", T.EXEC_LOAD_EVENT, "07000000", ExecLoadEvent(7), 4, FORMAT_V3),
    case(
        "delete file",
        T.DELETE_FILE_EVENT,
        "07000000",
        DeleteFileEvent(7),
        4,
        with_post_header(NO_CHECKSUM, T.DELETE_FILE_EVENT, 4),
    ),
    case(
        "execute load query",
        T.EXECUTE_LOAD_QUERY_EVENT,
        QUERY_HEAD + "07000000 09000000 20000000 02 1301 6462 00" + b"LOAD".hex(),
        ExecuteLoadQueryEvent(10, 2, 0x458, b"\x13\1", b"db", b"LOAD", b"", 7, 9, 32, 2),
    ),
    case(
        "xa prepare",
        T.XA_PREPARE_LOG_EVENT,
        "00 7b000000 05000000 05000000" + b"gtridbqual".hex(),
        XaPrepareEvent(0, 123, b"gtrid", b"bqual"),
        0,
    ),
    case(
        "xa commit in one phase",
        T.XA_PREPARE_LOG_EVENT,
        "01 ffffffff 02000000 00000000 00ff",
        XaPrepareEvent(1, -1, b"\0\xff", b""),
        0,
    ),
    case(
        "transaction context",
        T.TRANSACTION_CONTEXT_EVENT,
        "04 0a000000 01 02000000 02000000 01000000" + b"uuid".hex() + "aabb 0100 61 0200 6263 0000",
        TransactionContextEvent(b"uuid", 10, 1, b"\xaa\xbb", (b"a", b"bc"), (b"",)),
        18,
    ),
    case(
        "view change",
        T.VIEW_CHANGE_EVENT,
        VIEW_ID.hex() + "0500000000000000 01000000 0300 6b6579 02000000 aabb",
        ViewChangeEvent(VIEW_ID, 5, ((b"key", b"\xaa\xbb"),)),
        52,
    ),
    case(
        "partial update",
        T.PARTIAL_UPDATE_ROWS_EVENT,
        "5a0000000000 0100 0200 02 ff 03 fe0101",
        PartialUpdateRowsEvent("update", 39, 90, 1, b"", 2, b"\xff", b"\3", b"\xfe\1\1"),
        10,
    ),
    case(
        "payload, not compressed",
        T.TRANSACTION_PAYLOAD_EVENT,
        "02 03 fcff00 2a 01 77 01 01 03 00 616263",
        TransactionPayloadEvent(((2, b"\xfc\xff\0"), (42, b"w"), (1, b"\3")), b"abc"),
    ),
    case(
        "tagged GTID",
        T.GTID_TAGGED_LOG_EVENT,
        TAGGED,
        GtidTaggedEvent(
            0,
            SID,
            1,
            "tagged",
            0,
            1,
            1795211768069203,
            1795211768069203,
            295,
            90704,
            90704,
        ),
    ),
    case(
        "annotate",
        T.ANNOTATE_ROWS_EVENT,
        "494e5345525420494e544f20666f6f207365742069203d2032",
        AnnotateRowsEvent(b"INSERT INTO foo set i = 2"),
        0,
        MARIADB,
    ),
    case(
        "binlog checkpoint",
        T.BINLOG_CHECKPOINT_EVENT,
        "05000000" + b"bin.1".hex(),
        BinlogCheckpointEvent("bin.1"),
        4,
        MARIADB,
    ),
    case(
        "MariaDB GTID, padded",
        T.GTID_EVENT,
        "ec1c000000000000 00000000 0c 000000000000",
        MariadbGtidEvent(7404, 0, 12, extra=bytes(6)),
        None,
        MARIADB,
    ),
    case(
        "MariaDB GTID of a group commit",
        T.GTID_EVENT,
        "0102030405060708 2a013b04 02 1011121314151617",
        MariadbGtidEvent(0x0807060504030201, 0x043B012A, 2, 0x1716151413121110),
        None,
        MARIADB,
    ),
    case(
        "MariaDB GTID of an XA PREPARE",
        T.GTID_EVENT,
        "0300000000000000 00000000 4c 07000000 06 03" + b"global\0\xff'".hex() + "01 ff",
        MariadbGtidEvent(
            3, 0, 76, xid=MariadbXid(7, b"global", b"\0\xff'"), flags_extra=1, extra_engines=255
        ),
        None,
        MARIADB,
    ),
    case(
        "MariaDB GTID with all that there is",
        T.GTID_EVENT,
        "0300000000000000 01000000 ab 0500000000000000 ffffffff 01 00 67"
        " 1d 02 0900000000000000 0a000000 00",
        MariadbGtidEvent(3, 1, 0xAB, 5, MariadbXid(-1, b"g", b""), 0x1D, 2, 9, 10, b"\0"),
        None,
        MARIADB,
    ),
    case(
        "MariaDB GTID list",
        T.GTID_LIST_EVENT,
        "02000010 01000000 02000000 0300000000000000 04000000 05000000 0600000000000000",
        MariadbGtidListEvent(((1, 2, 3), (4, 5, 6)), 1),
        4,
        MARIADB,
    ),
    case(
        "empty MariaDB GTID list, padded",
        T.GTID_LIST_EVENT,
        "00000000" + "00" * 10,
        MariadbGtidListEvent((), extra=bytes(10)),
        4,
        MARIADB,
    ),
    case(
        "start encryption",
        T.START_ENCRYPTION_EVENT,
        "01 01000000 27362c500dd297d117d8ea89",
        StartEncryptionEvent(1, 1, bytes.fromhex("27362c500dd297d117d8ea89")),
        0,
        MARIADB,
    ),
    case(
        "compressed query",
        T.QUERY_COMPRESSED_EVENT,
        QUERY_HEAD + "1301 6462 00" + RECORD.hex(),
        QueryCompressedEvent(10, 2, 0x458, b"\x13\1", b"db", b"row images", b"", RECORD),
        13,
        MARIADB,
    ),
    case(
        "compressed rows",
        T.WRITE_ROWS_COMPRESSED_EVENT_V1,
        "5a0000000000 0100 02 ff" + RECORD.hex(),
        RowsEvent("insert", 166, 90, 1, b"", 2, b"\xff", None, RECORD),
        8,
        MARIADB,
    ),
    case(
        "compressed rows v2",
        T.UPDATE_ROWS_COMPRESSED_EVENT,
        "5a0000000000 0100 0200 02 ff 01" + RECORD.hex(),
        RowsEvent("update", 170, 90, 1, b"", 2, b"\xff", b"\1", RECORD),
        10,
        MARIADB,
    ),
]
IDS = [one.name for one in CASES]
LONGER = [one for one in CASES if one.post_header is not None]


def test_every_type_has_a_class() -> None:
    assert {int(code) for code in EventType} - set(map(int, EVENT_CLASSES)) == {0}


@pytest.mark.parametrize("one", CASES, ids=IDS)
def test_golden_and_identity(one: Case) -> None:
    event = BinlogDecoder(format=one.layout).decode(one.event(), 4)
    assert event.body == one.body
    assert type(event.body) is type(one.body)
    assert encode_event(event, one.layout) == one.event()
    context = EventContext(one.layout, one.type_code)
    assert one.body.encode(context) == one.data
    assert type(one.body).decode(ByteReader(one.data), context) == one.body


@pytest.mark.parametrize("one", CASES, ids=IDS)
def test_cut_at_every_byte(one: Case) -> None:
    for size in range(len(one.data)):
        data = whole_event(one.type_code, one.data[:size], one.layout)
        decoder = BinlogDecoder(format=one.layout, file="f")
        try:
            event = decoder.decode(data, 4)
        except BinlogDecodeError as error:
            assert (error.file, error.position, error.event_type) == ("f", 4, one.type_code)
        else:
            # A START_EVENT_V3 of 69 bytes is binlog v1, with another header.
            assert encode_event(event, one.layout) == data or len(data) == 69


@pytest.mark.parametrize("one", CASES, ids=IDS)
def test_every_byte_changed(one: Case) -> None:
    """Whatever a byte becomes, it is decoded, or refused by a typed error."""
    for at in range(len(one.data)):
        for value in (0, 1, 0x7F, 0x80, 0xFB, 0xFF, one.data[at] ^ 1):
            body = one.data[:at] + bytes((value,)) + one.data[at + 1 :]
            data = whole_event(one.type_code, body, one.layout)
            try:
                BinlogDecoder(format=one.layout).decode(data, 4)
            except BinlogDecodeError:
                continue


@pytest.mark.parametrize("one", LONGER, ids=[one.name for one in LONGER])
def test_longer_post_header_than_known(one: Case) -> None:
    at = one.post_header
    assert at is not None
    layout = with_post_header(one.layout, one.type_code, at + 3)
    data = whole_event(one.type_code, one.data[:at] + b"xyz" + one.data[at:], layout)
    event = BinlogDecoder(format=layout).decode(data, 4)
    assert event.body.extra_post_header == b"xyz"
    assert replace(event.body, extra_post_header=b"") == one.body
    assert encode_event(event, layout) == data


def test_longer_post_headers_of_create_file_and_execute_load_query() -> None:
    layout = with_post_header(FORMAT_V3, T.LOAD_EVENT, 19)
    layout = with_post_header(layout, T.CREATE_FILE_EVENT, 6)
    text = LOAD_HEAD + "78 07000000 797a 00 00 00 00 00 00" + NAMES + "00"
    body = decode(T.CREATE_FILE_EVENT, text, layout)
    assert (body.extra_post_header, body.file_id, body.extra_file_header) == (b"x", 7, b"yz")
    assert body.encode(EventContext(layout, T.CREATE_FILE_EVENT)) == bytes.fromhex(text)
    layout = with_post_header(NO_CHECKSUM, T.EXECUTE_LOAD_QUERY_EVENT, 28)
    text = QUERY_HEAD + "07000000 09000000 20000000 02 797a 1301 6462 00"
    body = decode(T.EXECUTE_LOAD_QUERY_EVENT, text, layout)
    assert (body.duplicates, body.extra_load_header, body.schema) == (2, b"yz", b"db")
    assert body.encode(EventContext(layout, T.EXECUTE_LOAD_QUERY_EVENT)) == bytes.fromhex(text)


@pytest.mark.parametrize(
    ("type_code", "text", "value"),
    [
        (0, "c3bc", b"\xc3\xbc"),
        (1, "2f30b7b3a7c9ba81", -2.5e-300),
        (2, "d6ffffffffffffff", -42),
        (4, "10047f84e4c5f3ebf27f", Decimal("-123456789012.3456")),
        (4, "0a0980000000 01", Decimal("1E-9")),
        (4, "010185", Decimal("0.5")),
        (4, "15018c149aa4350dfb38d205", Decimal("12345678901234567890.5")),
        (4, "02018000", Decimal("0.0")),
    ],
)
def test_user_variable_values(type_code: int, text: str, value: object) -> None:
    event = UserVarEvent(b"v", 0, type_code, 8, bytes.fromhex(text), 0)
    assert event.value == value
    assert str(event.value) == str(value)


def test_user_variable_unsigned_and_null() -> None:
    assert UserVarEvent(b"v", 0, 2, 8, b"\xff" * 8, 1).value == (1 << 64) - 1
    assert UserVarEvent(b"v", 1).value is None


@pytest.mark.parametrize(
    ("type_code", "text"),
    [
        (1, "00"),
        (2, "00"),
        (3, ""),
        (4, ""),
        (4, "0000 80"),
        (4, "0102 80"),
        (4, "5200 80"),
        (4, "0100 8000"),
        (4, "0900 ffffffff"),
        (9, "00"),
    ],
)
def test_user_variable_values_that_are_none(type_code: int, text: str) -> None:
    with pytest.raises(ColumnDecodeError):
        _ = UserVarEvent(b"v", 0, type_code, 8, bytes.fromhex(text), 0).value


def test_names_and_texts() -> None:
    assert [IntvarEvent(kind, 0).name for kind in (0, 1, 2, 9)] == [
        "INVALID_INT",
        "LAST_INSERT_ID",
        "INSERT_ID",
        "INVALID_INT",
    ]
    assert (IncidentEvent(1, b"").name, IncidentEvent(7, b"").name) == ("LOST_EVENTS", "INCIDENT_7")
    assert XaPrepareEvent(0, 1, b"gt", b"").xid_text == "X'6774',X'',1"
    assert ViewChangeEvent(VIEW_ID, 5).view_id_text == "15010025948416980:1"
    assert StartEventV3(3, VERSION_V3, 0).version_text == "4.1.24-debug-log"


def test_xid_longer_than_xa_allows() -> None:
    with pytest.raises(BinlogDecodeError, match="more than 64") as caught:
        decode(T.XA_PREPARE_LOG_EVENT, "00 7b000000 41000000 00000000" + "00" * 65)
    assert caught.value.offset == 5


def test_name_without_nul() -> None:
    text = LOAD_HEAD + "00 00 00 00 00 00 0101" + b"a\0b\0t\1db\0".hex()
    with pytest.raises(BinlogDecodeError, match="no NUL follows the table"):
        decode(T.NEW_LOAD_EVENT, text, FORMAT_V3)


def test_old_load_takes_one_byte_per_text() -> None:
    event = LoadEvent(0, 0, 0, b"", b"", (), b"", LoadSyntax(b"||", empty_flags=0))
    with pytest.raises(EncodeError):
        event.encode(EventContext(FORMAT_V3, T.LOAD_EVENT))


def test_flags_that_promise_an_xid_which_is_not_there() -> None:
    """go-mysql's TestMariadbGTIDEvent sets all flags and has no xid; servers refuse it as well."""
    with pytest.raises(BinlogDecodeError):
        decode(T.GTID_EVENT, "0102030405060708 2a013b04 ff 1011121314151617", MARIADB)


def test_lists_that_claim_more_than_there_is() -> None:
    for type_code, text in (
        (T.GTID_LIST_EVENT, "ffffff0f" + "00" * 32),
        (T.TRANSACTION_CONTEXT_EVENT, "00 00000000 00 00000000 ffffffff ffffffff 0000"),
        (T.VIEW_CHANGE_EVENT, "00" * 48 + "ffffffff" + "00" * 12),
        (T.TRANSACTION_CONTEXT_EVENT, "00 00000000 00 ffffffff 00000000 00000000"),
    ):
        with pytest.raises(BinlogDecodeError):
            decode(type_code, text, MARIADB if type_code > 100 else NO_CHECKSUM)


def test_compressed_rows() -> None:
    options = DecodeOptions()
    plain = RowsEvent("insert", 23, 90, 1, b"", 2, b"\xff", None, b"row images" * 9)
    event = compress_rows(plain)
    assert (event.type_code, event.compressed) == (166, True)
    assert row_images(event, options) == row_images(plain, options) == plain.rows
    assert compress_rows(event) is event
    with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
        row_images(event, DecodeOptions(max_uncompressed_size=89))
    with pytest.raises(EncodeError):
        compress_rows(replace(plain, type_code=39))


def test_compressed_query_is_bounded() -> None:
    data = CASES[IDS.index("compressed query")].event()
    for limit in (9, 10):
        decoder = BinlogDecoder(DecodeOptions(max_uncompressed_size=limit), format=MARIADB)
        if limit == 10:
            assert decoder.decode(data, 4).body.query == b"row images"
        else:
            with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
                decoder.decode(data, 4)


def test_compressed_query_that_is_new() -> None:
    body = QueryCompressedEvent(1, 2, 3, b"", b"db", b"SELECT 1")
    context = EventContext(MARIADB, T.QUERY_COMPRESSED_EVENT)
    assert QueryCompressedEvent.decode(ByteReader(body.encode(context)), context).query == (
        b"SELECT 1"
    )


TAGGED_BODY = GtidTaggedEvent.decode(ByteReader(bytes.fromhex(TAGGED)), EventContext())


def test_tagged_gtid_with_everything() -> None:
    body = replace(
        TAGGED_BODY,
        flags=1,
        gno=(1 << 63) - 2,
        tag="a" * 32,
        last_committed=-5,
        original_commit_timestamp=1,
        original_server_version=80300,
        commit_group_ticket=(1 << 64) - 1,
        unknown_fields=bytes.fromhex("18 0204"),
        extra=b"xy",
    )
    data = body.encode()
    assert GtidTaggedEvent.decode(ByteReader(data), EventContext()) == body
    for size in range(len(data) - 2):
        with pytest.raises(BinlogDecodeError):
            decode(T.GTID_TAGGED_LOG_EVENT, data[:size].hex())


def test_tagged_gtid_with_few_fields() -> None:
    body = GtidTaggedEvent(0, SID, 7, "t")
    assert GtidTaggedEvent.decode(ByteReader(body.encode()), EventContext()) == body


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("0274", "0474", UnsupportedEventError),  # format version 2
        ("0274", "0202", BinlogDecodeError),  # a size smaller than the head
        ("060c746167676564", "0a0c746167676564", BinlogDecodeError),  # no tag; field order
        ("060c74", "060cff", BinlogDecodeError),  # a tag that is not ASCII
    ],
)
def test_tagged_gtid_that_is_broken(old: str, new: str, error: type[Exception]) -> None:
    text = TAGGED.replace(" ", "").replace(old, new, 1)
    assert text != TAGGED
    with pytest.raises(error):
        decode(T.GTID_TAGGED_LOG_EVENT, text)


def test_tagged_gtid_field_that_must_be_known() -> None:
    data = replace(TAGGED_BODY, last_required_id=12, unknown_fields=b"\x18\x02").encode()
    with pytest.raises(UnsupportedEventError, match="field 12"):
        decode(T.GTID_TAGGED_LOG_EVENT, data.hex())
    data = replace(TAGGED_BODY, last_required_id=11, unknown_fields=b"\x18\x02").encode()
    assert decode(T.GTID_TAGGED_LOG_EVENT, data.hex()).unknown_fields == b"\x18\x02"


def test_tagged_gtid_needs_a_whole_sid() -> None:
    with pytest.raises(EncodeError):
        replace(TAGGED_BODY, sid=b"short").encode()
