"""Whole files captured from real servers by scripts/capture/goldens.

The server's own SHOW BINLOG EVENTS is the expectation: position, type, end, and its description of
each event, made here from the decoded fields. Every event is encoded again to the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import BinlogDecodeError, EncryptedBinlogError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events import (
    AnnotateRowsEvent,
    BeginLoadQueryEvent,
    BinlogCheckpointEvent,
    ExecuteLoadQueryEvent,
    FormatDescriptionEvent,
    GtidEvent,
    GtidTaggedEvent,
    IntvarEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    PreviousGtidsEvent,
    QueryCompressedEvent,
    QueryEvent,
    RandEvent,
    RotateEvent,
    RowsEvent,
    RowsQueryEvent,
    StartEncryptionEvent,
    StopEvent,
    TableMapEvent,
    TransactionPayloadEvent,
    UnknownEvent,
    UserVarEvent,
    XaPrepareEvent,
    XidEvent,
)
from replica_client.protocol.binlog.events.gtids import MariadbGtidExtraFlag
from replica_client.protocol.binlog.events.rows import row_images
from replica_client.protocol.binlog.payload import split_payload
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.header_scan import HeaderScan

GOLDEN = Path(__file__).parent
FILES = sorted(GOLDEN.glob("*-*/*.binlog"))
USE_SQL_FOREIGN_KEY = 0x10  # of rows events; seen from MySQL 9.7
IDS = [f"{path.parent.name}/{path.stem}" for path in FILES]
WRITTEN_OTHERWISE = {
    "XA_prepare": "XA_PREPARE_LOG_EVENT",
    "Update_rows_partial": "PARTIAL_UPDATE_ROWS_EVENT",
    "Anonymous_Gtid": "ANONYMOUS_GTID_LOG_EVENT",
    "Gtid_tagged_log_event": "GTID_TAGGED_LOG_EVENT",
    "Rows_query": "ROWS_QUERY_LOG_EVENT",
    "Previous_gtids": "PREVIOUS_GTIDS_LOG_EVENT",
    "Format_desc": "FORMAT_DESCRIPTION_EVENT",
}


def expectation(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return loaded


def keys_of(expected: dict[str, Any]) -> dict[str, bytes]:
    return {key_id: bytes.fromhex(key) for key_id, key in expected["keys"].items()}


def read(path: Path) -> Iterator[tuple[BinlogDecoder, BinlogEvent, bytes]]:
    """Decoder, event and plain bytes, event by event."""
    data = path.read_bytes()
    decoder = BinlogDecoder(DecodeOptions(keys=keys_of(expectation(path))), path.name)
    scan = HeaderScan(data)
    for position, header in scan:
        raw = data[position : position + header.event_size]
        plain = decoder.decrypted(raw, position)
        yield decoder, decoder.decode(raw, position), plain
    scan.raise_if_truncated()


def type_of(name: str, mariadb: bool) -> str:
    """The type that SHOW BINLOG EVENTS calls so."""
    if name == "Gtid":
        return "GTID_EVENT" if mariadb else "GTID_LOG_EVENT"
    if name in WRITTEN_OTHERWISE:
        return WRITTEN_OTHERWISE[name]
    words = name.upper().replace(" ", "_")
    if words.endswith("_V1"):
        return f"{words.removesuffix('_V1')}_EVENT_V1"
    return f"{words}_EVENT"


def number(value: object) -> str:
    return f"{value:f}" if not isinstance(value, (int, float)) else repr(value)


def stated(body: Any, server_id: int) -> str | None:
    """What the server says of an event; None where its text is not made here."""
    match body:
        case FormatDescriptionEvent():
            return f"Server ver: {body.version}, Binlog ver: {body.binlog_version}"
        case RotateEvent():
            return f"{body.next_file};pos={body.next_position}"
        case PreviousGtidsEvent():
            return str(body.gtid_set)
        case GtidEvent() | GtidTaggedEvent():
            if not body.gno:
                return "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'"
            tag = f"{body.tag}:" if body.tag else ""
            return f"SET @@SESSION.GTID_NEXT= '{uuid.UUID(bytes=body.sid)}:{tag}{body.gno}'"
        case XidEvent():
            return f"COMMIT /* xid={body.xid} */"
        case IntvarEvent():
            return f"{body.name}={body.value}"
        case RandEvent():
            return f"rand_seed1={body.seed1},rand_seed2={body.seed2}"
        case BeginLoadQueryEvent():
            return f";file_id={body.file_id};block_len={len(body.block)}"
        case ExecuteLoadQueryEvent():
            text = f"use `{body.schema.decode()}`; {body.query_text()}"
            return f"{text} ;file_id={body.file_id}"
        case XaPrepareEvent():
            if body.one_phase:
                return f"XA COMMIT {body.xid_text} ONE PHASE"
            return f"XA PREPARE {body.xid_text}"
        case QueryCompressedEvent():
            return f"use `{body.schema.decode()}`; {body.query_text()}"
        case RowsQueryEvent():
            return f"# {body.query.decode()}"
        case AnnotateRowsEvent():
            return body.query.decode()
        case BinlogCheckpointEvent():
            return body.file
        case MariadbGtidListEvent():
            return f"[{', '.join('-'.join(map(str, gtid)) for gtid in body.gtids)}]"
        case TransactionPayloadEvent():
            return f"compression='ZSTD', decompressed_size={body.uncompressed_size} bytes"
        case TableMapEvent():
            return f"table_id: {body.table_id} ({body.schema}.{body.table})"
        case RowsEvent():
            names = ["STMT_END_F"] if body.ends_statement else []
            names += ["USE_SQL_FOREIGN_KEY_F"] if body.flags & USE_SQL_FOREIGN_KEY else []
            return " ".join([f"table_id: {body.table_id}", *(["flags:"] if names else []), *names])
        case MariadbGtidEvent() if body.xid is None:
            begin = "" if body.is_standalone else "BEGIN "
            end = ""
            if (body.flags_extra or 0) & MariadbGtidExtraFlag.FL_START_ALTER_E1:
                end = " START ALTER"
            if body.alter_sequence is not None:
                end = f" COMMIT ALTER id={body.alter_sequence}"
            return f"{begin}GTID {body.domain_id}-{server_id}-{body.sequence}{end}"
        case UserVarEvent() if body.type_code != 0:
            return f"@`{body.name.decode()}`={number(body.value)}"
        case StopEvent() | StartEncryptionEvent():
            return ""
    return None


def test_manifest() -> None:
    """The files are those that were captured, all of them and no others."""
    found = {
        str(path.relative_to(GOLDEN)): (
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in GOLDEN.glob("*-*/*")
    }
    lines = (GOLDEN / "MANIFEST").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert {name: (int(size), digest) for name, size, digest in rows} == found
    assert len(FILES) > 40


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_as_the_server_lists_them(path: Path) -> None:
    expected = expectation(path)
    mariadb = "MariaDB" in expected["server_version"]
    listed = iter(expected["events"])
    descriptions = 0
    for decoder, event, _ in read(path):
        inner = list(decoder.inner_events(event))
        for one in (event, *inner):
            row = next(listed)
            assert one.header.type_name == type_of(row["type"], mariadb)
            assert one.header.server_id == row["server_id"]
            if one is event:
                assert (one.position, one.header.next_position) == (row["position"], row["end"])
            else:
                # The server shows inner events at the end of the payload.
                assert (one.position, one.end_position) != (row["position"], row["end"])
                assert event.end_position == row["position"] == row["end"]
            text = stated(one.body, one.header.server_id)
            if text is not None:
                assert row["info"] == text
                descriptions += 1
            elif isinstance(one.body, QueryEvent):
                assert one.body.query_text() in row["info"]
                descriptions += 1
        assert event.end_position <= path.stat().st_size
    assert list(listed) == []
    assert descriptions > len(expected["events"]) * 0.6


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_identity(path: Path) -> None:
    for decoder, event, plain in read(path):
        assert not isinstance(event.body, UnknownEvent)
        assert encode_event(event, decoder.format) == plain
        if isinstance(event.body, TransactionPayloadEvent):
            layout = replace(decoder.format, checksum_algorithm=ChecksumAlgorithm.OFF)
            parts = list(split_payload(event.body, decoder.options))
            inner = list(decoder.inner_events(event))
            assert [encode_event(one, layout) for one in inner] == parts
            assert sum(map(len, parts)) == event.body.uncompressed_size
        if isinstance(event.body, RowsEvent):
            assert row_images(event.body, decoder.options)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_cut_events(path: Path) -> None:
    """An event cut at any byte, of a size that fits, is refused or reads as itself."""
    decoder = None
    for decoder, event, plain in read(path):
        if event.header.type_code in (EventType.FORMAT_DESCRIPTION_EVENT, EventType.ROTATE_EVENT):
            continue
        layout = replace(decoder.format, checksum_algorithm=ChecksumAlgorithm.OFF)
        end = len(plain) - decoder.format.checksum_size
        for size in range(19, end, 1 if end < 200 else 23):
            cut = plain[:9] + size.to_bytes(4, "little") + plain[13:size]
            try:
                one = BinlogDecoder(format=layout).decode(cut, event.position)
            except BinlogDecodeError:
                continue
            assert encode_event(one, layout) == cut
    assert decoder is not None


ENCRYPTED = [path for path in FILES if path.stem.startswith("encrypted")]


@pytest.mark.parametrize("path", ENCRYPTED, ids=[path.stem for path in ENCRYPTED])
def test_encrypted_without_the_key(path: Path) -> None:
    data = path.read_bytes()
    for keys, reason in (({}, "was not given"), ({"1": bytes(32)}, "does not decrypt")):
        decoder = BinlogDecoder(DecodeOptions(keys=keys), path.name)
        types = []
        with pytest.raises(EncryptedBinlogError, match=reason):
            for position, header in HeaderScan(data):
                event = decoder.decode(data[position : position + header.event_size], position)
                types.append(event.header.type_code)
        assert types == [EventType.FORMAT_DESCRIPTION_EVENT, EventType.START_ENCRYPTION_EVENT]


def test_encrypted_files_are_there() -> None:
    assert len(ENCRYPTED) >= 3
    for path in ENCRYPTED:
        assert b"INSERT INTO" not in path.read_bytes()


def test_all_types_that_a_server_can_be_made_to_write_are_there() -> None:
    """What is missing here no server of today writes by itself."""
    types = set()
    for path in FILES:
        for decoder, event, _ in read(path):
            types.add(event.header.type_code)
            types.update(one.header.type_code for one in decoder.inner_events(event))
    T = EventType
    missing = {T(code) for code in range(1, 172) if code <= 42 or code >= 160} - types
    assert missing == {
        # MySQL 3.23 to 5.1, see tests/corpus.
        T.START_EVENT_V3,
        T.LOAD_EVENT,
        T.SLAVE_EVENT,
        T.CREATE_FILE_EVENT,
        T.EXEC_LOAD_EVENT,
        T.NEW_LOAD_EVENT,
        T.PRE_GA_WRITE_ROWS_EVENT,
        T.PRE_GA_UPDATE_ROWS_EVENT,
        T.PRE_GA_DELETE_ROWS_EVENT,
        # A file of more than a block, or a failed LOAD DATA.
        T.APPEND_BLOCK_EVENT,
        T.DELETE_FILE_EVENT,
        # A file that ended with the server, and what is only in streams.
        T.STOP_EVENT,
        T.HEARTBEAT_LOG_EVENT,
        T.HEARTBEAT_LOG_EVENT_V2,
        # Faults and group replication.
        T.INCIDENT_EVENT,
        T.IGNORABLE_LOG_EVENT,
        T.TRANSACTION_CONTEXT_EVENT,
        T.VIEW_CHANGE_EVENT,
        # MariaDB writes rows of v1 only.
        T.WRITE_ROWS_COMPRESSED_EVENT,
        T.UPDATE_ROWS_COMPRESSED_EVENT,
        T.DELETE_ROWS_COMPRESSED_EVENT,
    }
