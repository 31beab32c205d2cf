"""Single events of the corpus' fixtures: BINLOG statements of the servers' tests, vitess, Java."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    ChecksumMismatchError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogFormat, EventContext
from replica_client.protocol.binlog.events import GtidEvent, TableMapEvent
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.event_types import EventType
from tests.corpus.binlogs import CORPUS, require_corpus
from tests.header_scan import HeaderScan

STATEMENT_FAULTS: dict[int, type[BinlogDecodeError]] = {
    # These tests want the server's error "not preceded by a format description".
    3: BinlogFormatError,
    47: BinlogFormatError,
    48: BinlogFormatError,
    59: BinlogFormatError,
    74: BinlogFormatError,
    # Events with checksums after a format description of 5.1, which has none.
    7: TruncatedEventError,
    # Events without checksums after a format description that promises them.
    36: ChecksumMismatchError,
    # bug test of a corrupt update event: a wrong checksum.
    78: ChecksumMismatchError,
}


@pytest.fixture(scope="module", autouse=True)
def _corpus_is_there() -> None:
    require_corpus()


def cases(name: str) -> list[dict[str, Any]]:
    loaded = json.loads((CORPUS / "fixtures" / name).read_text())
    found: list[dict[str, Any]] = loaded["cases"]
    return found


def test_binlog_statements() -> None:
    """Consecutive cases of one file belong together."""
    decoder = BinlogDecoder()
    path = None
    count = 0
    faults: dict[int, type[BinlogDecodeError]] = {}
    for number, case in enumerate(cases("mtr-BINLOG-statements/events.json")):
        if path != (case["package"], case["path"]):
            path = (case["package"], case["path"])
            decoder = BinlogDecoder()
        data = bytes.fromhex(case["hex"])
        scan = HeaderScan(data, start=0)
        codes = []
        try:
            for position, header in scan:
                raw = data[position : position + header.event_size]
                codes.append(raw[4])
                event = decoder.decode(raw, position)
                assert encode_event(event, decoder.format) == raw
                if isinstance(event.body, TableMapEvent):
                    _ = event.body.metadata
                count += 1
        except BinlogDecodeError as error:
            faults[number] = type(error)
        else:
            assert codes == case["event_types"]
            assert not scan.truncated
    assert faults == STATEMENT_FAULTS
    assert count > 100


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("vitess/binlog_event_mysql56_test.json", ["mysql56FormatEvent", "mysql56QueryEvent"]),
        (
            "vitess/binlog_event_common_test.json",
            [
                "googleRotateEvent",
                "googleFormatEvent",
                "googleQueryEvent",
                "googleXIDEvent",
                "googleIntVarEvent1",
                "googleIntVarEvent2",
            ],
        ),
        (
            "vitess/binlog_event_mariadb_test.json",
            [
                "mariadbFormatEvent",
                "mariadbStandaloneGTIDEvent",
                "mariadbBeginGTIDEvent",
                "mariadbInsertEvent",
                "mariadbChecksumFormatEvent",
                "mariadbChecksumQueryEvent",
            ],
        ),
    ],
)
def test_vitess(name: str, names: list[str]) -> None:
    decoder = BinlogDecoder()
    data = {case["var"]: bytes.fromhex(case["hex"]) for case in cases(name) if case.get("var")}
    for one in names:
        event = decoder.decode(data[one], 4)
        assert encode_event(event, decoder.format) == data[one]


def test_gtids_of_java() -> None:
    found = []
    for case in cases("mysql-binlog-connector-java/MysqlGtidEventDataDeserializerTest.json"):
        data = bytes.fromhex(case["hex"])
        context = EventContext(BinlogFormat(), EventType.GTID_LOG_EVENT)
        event = GtidEvent.decode(ByteReader(data), context)
        assert event.encode() == data
        found.append(
            (
                event.gno,
                event.sequence_number,
                event.immediate_commit_timestamp,
                event.transaction_length,
                event.immediate_server_version,
            )
        )
    assert found == [
        (11, None, None, None, None),
        (4, 4, 1701215692713879, None, None),
        (3, 3, 1701257014433088, 308, None),
        (9, 8, 1699112309893478, 315, 80100),
    ]
