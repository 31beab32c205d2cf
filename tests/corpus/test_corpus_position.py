"""The tracker over every binlog of the corpus: each transaction ends, but where a file is broken."""

import os
import struct
from collections import Counter
from pathlib import Path

import pytest

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.constants.event_types import EventType
from replica_client.stream.position import Position, PositionTracker

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

# Files that end inside a transaction, or at an event that cannot be decoded there.
OPEN_AT_END = {
    "derived-plaintext/mysql_rpl_nogtid_encryption_master-bin.000002.decrypted",
    "mariadb-test-data-11.8.9/bug11747416_32228_binlog.000001",
    "mysql-binlog-connector-java/mysql-bin.aurora-padding",
    "mysql-testsuite-5.7.42/trunc_binlog.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/duplicate_xid.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/duplicate_xid_ddl.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/duplicate_xid_xa_prepare.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/malformed_xid_xa_commit.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/malformed_xid_xa_rollback.000001",
    "mysql-testsuite-9.7.4/corrupt-relay-bin.000624",
}
# Files that MySQL's tests of crash recovery wrote wrong on purpose: a transaction without its end.
UNFINISHED = {
    "mysql-testsuite-9.7.4/binlog_recovery/ddl_in_transaction.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/orphan_begin_start.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/orphan_xa_commit.000001",
    "mysql-testsuite-9.7.4/binlog_recovery/orphan_xa_rollback.000001",
}


def events(data, decoder, name):
    at = 4
    while at + 19 <= len(data):
        (size,) = struct.unpack_from("<I", data, at + 9)
        if size < 13 or at + size > len(data):
            return
        try:
            event = decoder.decode(data[at : at + size], at, name)
            yield event
            if event.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
                yield from decoder.inner_events(event)
        except BinlogDecodeError:
            return
        at += size


def test_every_transaction_of_the_corpus_ends():
    if not CORPUS.is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no corpus at {CORPUS}")
    outcomes, open_at_end, unfinished, files = Counter(), set(), set(), 0
    for path in sorted(CORPUS.rglob("*")):
        if not path.is_file() or path.stat().st_size > 1 << 25:
            continue
        data = path.read_bytes()
        if data[:4] != b"\xfebin":
            continue
        files += 1
        name = str(path.relative_to(CORPUS))
        tracker = PositionTracker(Position("", 4), mode="file")
        previous = tracker.position
        for event in events(data, BinlogDecoder(), path.name):
            boundary = tracker.feed(event)
            position = tracker.position
            assert not previous.file or position >= previous, name
            if boundary is not None:
                outcomes[boundary.outcome] += 1
                if boundary.outcome == "abandoned":
                    unfinished.add(name)
                else:
                    assert position.offset == boundary.end_offset, name
            previous = position
        if tracker.in_transaction:
            open_at_end.add(name)
    assert files > 100
    assert open_at_end == OPEN_AT_END
    assert unfinished == UNFINISHED
    assert outcomes["commit"] > 2000 and outcomes["prepare"] and outcomes["rollback"]
