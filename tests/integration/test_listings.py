"""`mysqlbinlog` and `mariadb-binlog` list the same events: type, position, size.

Every golden file and every intact file of the corpus goes through the tool of its server, whose
`--hexdump` shows the header of each event. What the tools show otherwise is written down here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.events.rows import row_images
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType as E
from tests.corpus.binlogs import BROKEN, CORPUS, DECRYPTED, binlog_files, require_corpus
from tests.header_scan import HeaderScan

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
GOLDEN_FILES = sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.glob("*/*.binlog"))
CORPUS_FILES = [name for name in binlog_files() if name not in BROKEN]

TOOLS = {
    ServerFlavor.MYSQL: ("mysql-9.7", "mysqlbinlog"),
    ServerFlavor.MARIADB: ("mariadb-11.8", "mariadb-binlog"),
}

# The current mysqlbinlog refuses these ("Found invalid event in binary log"); mariadb-binlog, which
# still knows what older servers wrote, lists them.
ROWS_V1 = "rows events of version 1, which mysqlbinlog 9.7 no longer reads"
PRE_GA = "rows events of before 5.1.18"
BEFORE_5_0 = "binlog versions 1 and 3, before 5.0"
PERMUTED = "type numbers of 5.2.2-a_drop6, which other numbers have now"
ANCIENT_HEADERS = "headers of 27 bytes, of Google's MySQL"
INCIDENT = "an INCIDENT event with a number that no server writes"
LISTED_BY_MARIADB = {
    "mariadb-test-data-10.11.19/binlog/bug32407.001": PRE_GA,
    "mariadb-test-data-10.11.19/binlog/ver_5_1-telco.001": PRE_GA,
    "mariadb-test-data-10.11.19/binlog/ver_5_1_17.001": PRE_GA,
    "mariadb-test-data-10.11.19/bug47142_master-bin.000001": BEFORE_5_0,
    "mariadb-test-data-11.8.9/mdev-4645-binlog_checksum.binlog": ANCIENT_HEADERS,
    "mariadb-test-data-11.8.9/mdev-4645-binlog_group_id.binlog": ANCIENT_HEADERS,
    "mariadb-test-data-11.8.9/mdev-4645-binlog_group_id_checksum.binlog": ANCIENT_HEADERS,
    "mysql-binlog-connector-java/mysql-bin.sakila": ROWS_V1,
    "mysql-testsuite-5.7.42/binlog/binlog_old_version_4_1.000001": BEFORE_5_0,
    "mysql-testsuite-5.7.42/master-bin.000001": BEFORE_5_0,
    "mysql-testsuite-5.7.42/trunc_binlog.000001": BEFORE_5_0,
    "mysql-testsuite-9.7.4/binlog/ver_5_1-wl2325_r.001": PERMUTED,
    "mysql-testsuite-9.7.4/binlog/ver_5_1-wl2325_s.001": PERMUTED,
    "mysql-testsuite-9.7.4/binlog/ver_5_1_23.001": ROWS_V1,
    "mysql-testsuite-9.7.4/binlog_nogtid/update-full-row.binlog": ROWS_V1,
    "mysql-testsuite-9.7.4/binlog_nogtid/update-partial-row.binlog": ROWS_V1,
    "mysql-testsuite-9.7.4/binlog_nogtid/write-full-row.binlog": ROWS_V1,
    "mysql-testsuite-9.7.4/binlog_nogtid/write-partial-row.binlog": ROWS_V1,
    "mysql-testsuite-9.7.4/bug40482-bin.000001": INCIDENT,
    "mysqlmv/PVGN50874064A-bin.000003": ROWS_V1,
    "mysqlmv/PVGN50874064A-bin.000004": ROWS_V1,
    "mysqlmv/PVGN50874064A-bin.000006": ROWS_V1,
    "mysqlmv/PVGN50874064A-bin.000008": ROWS_V1,
    "mysqlmv/PVGN50874064A-bin.000009": ROWS_V1,
    "mysqlmv/PVGN50874064A-bin.000010": ROWS_V1,
    "mysqlmv/PVGN50874064A-bin.000011": ROWS_V1,
    "mysql-5.6.24/rows_v1.binlog": ROWS_V1,
}

# mariadb-binlog takes no keys for files.
NOT_DECRYPTED = {
    DECRYPTED: "plaintext that still has the START_ENCRYPTION event, by which the tool decrypts it",
    "mariadb-10.11.18/encrypted.binlog": "encrypted",
    "mariadb-10.11.18/encrypted_counter_mode.binlog": "encrypted",
    "mariadb-10.11.18/encrypted_no_checksum.binlog": "encrypted",
}

PLAIN_TYPES = {
    E.WRITE_ROWS_COMPRESSED_EVENT_V1: E.WRITE_ROWS_EVENT_V1,
    E.UPDATE_ROWS_COMPRESSED_EVENT_V1: E.UPDATE_ROWS_EVENT_V1,
    E.DELETE_ROWS_COMPRESSED_EVENT_V1: E.DELETE_ROWS_EVENT_V1,
    E.WRITE_ROWS_COMPRESSED_EVENT: E.WRITE_ROWS_EVENT,
    E.UPDATE_ROWS_COMPRESSED_EVENT: E.UPDATE_ROWS_EVENT,
    E.DELETE_ROWS_COMPRESSED_EVENT: E.DELETE_ROWS_EVENT,
}

_MYSQL = re.compile(
    rb"^# ([0-9a-f]{8}) (?:[0-9a-f]{2} ){4}  ([0-9a-f]{2})   (?:[0-9a-f]{2} ){4}  "
    rb"((?:[0-9a-f]{2} ){4})  (?:[0-9a-f]{2} ){4}  [0-9a-f]{2} [0-9a-f]{2} *$",
    re.MULTILINE,
)
_MARIADB = re.compile(
    rb"^# +([0-9a-f]+)  \|(?:[0-9a-f]{2} ){4}\|([0-9a-f]{2})   \|(?:[0-9a-f]{2} ){4}\|"
    rb"((?:[0-9a-f]{2} ){4})\|(?:[0-9a-f]{2} ){4}\|[0-9a-f]{2} [0-9a-f]{2} *$",
    re.MULTILINE,
)
_AT = re.compile(rb"^# at (\d+)$", re.MULTILINE)
_INVALID = "Found invalid event in binary log"


class Listed(NamedTuple):
    """An event of a list."""

    position: int
    type_code: int
    size: int


@dataclass(frozen=True)
class Listing:
    """What a tool printed: the headers, and the numbers of its ``# at`` lines."""

    headers: list[Listed]
    positions: list[int]
    errors: str


@cache
def why_no_tools() -> str | None:
    """Why the servers' programs cannot be run here."""
    for server, program in TOOLS.values():
        done = _run(server, program, "--version")
        if done.returncode:
            return done.stderr.decode(errors="replace").strip().splitlines()[-1]
    return None


def _run(server: str, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, str(ROOT / "scripts" / "servers"), "tool", server, program]
    return subprocess.run(
        [*command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=100
    )


@pytest.fixture(autouse=True)
def _tools_are_there() -> None:
    reason = why_no_tools()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def listing(flavor: ServerFlavor, path: Path) -> Listing:
    """The list of a tool; with ``-vv`` it shows the headers of ROWS_QUERY events, too."""
    done = _run(*TOOLS[flavor], "--hexdump", "-vv", "--force-read", str(path))
    pattern = _MARIADB if flavor == ServerFlavor.MARIADB else _MYSQL
    return Listing(
        [
            Listed(
                int(at, 16), int(code, 16), int.from_bytes(bytes.fromhex(size.decode()), "little")
            )
            for at, code, size in pattern.findall(done.stdout)
        ],
        [int(at) for at in _AT.findall(done.stdout)],
        done.stderr.decode("utf-8", "replace"),
    )


def events_of(path: Path) -> tuple[ServerFlavor, list[Listed]]:
    """Our list, with what the tools show otherwise put in their way.

    - An event inside a transaction payload is at the payload's position for us, and at its end for
      mysqlbinlog, which also counts a checksum that the event would have outside.
    - mariadb-binlog shows the header of ANNOTATE_ROWS together with the event after it, with that
      event's address.
    - In place of a compressed rows event mariadb-binlog shows the plain one that it makes of it.
    - Type codes are those of the bytes, as hexdumps show them.
    """
    data = path.read_bytes()
    decoder = BinlogDecoder(DecodeOptions(verify_checksum=False), path.name)
    events: list[Listed] = []
    for position, header in HeaderScan(data):
        end = position + header.event_size
        raw = data[position:end]
        event = decoder.decode(raw, position)
        shown = Listed(position, raw[4], header.event_size)
        if shown.type_code == E.ANNOTATE_ROWS_EVENT:
            shown = shown._replace(position=end)
        elif shown.type_code in PLAIN_TYPES:
            images = len(row_images(event.body, DecodeOptions()))
            size = shown.size - len(event.body.rows) + images
            shown = Listed(position, PLAIN_TYPES[shown.type_code], size)
        events.append(shown)
        has_checksum = decoder.format.checksum_algorithm == ChecksumAlgorithm.CRC32
        for inner in decoder.inner_events(event):
            size = inner.header.event_size + (4 if has_checksum else 0)
            events.append(Listed(end, inner.header.type_code, size))
    return decoder.format.flavor, events


def compare(name: str, path: Path) -> None:
    """Both lists are the same, and the tool's ``# at`` lines say the same positions."""
    flavor, events = events_of(path)
    if name in LISTED_BY_MARIADB:
        assert _INVALID in listing(flavor, path).errors
        flavor = ServerFlavor.MARIADB
    found = listing(flavor, path)
    assert found.headers == events
    positions = [
        event.position - event.size if event.type_code == E.ANNOTATE_ROWS_EVENT else event.position
        for event in events
    ]
    assert found.positions == positions


def check_not_decrypted(path: Path) -> None:
    """The tool shows where the events are (sizes are in clear), and no header after the first."""
    data = path.read_bytes()
    scanned = list(HeaderScan(data))
    assert scanned[1][1].type_code == E.START_ENCRYPTION_EVENT
    found = listing(ServerFlavor.MARIADB, path)
    assert found.headers == [Listed(4, scanned[0][1].type_code, scanned[0][1].event_size)]
    assert found.positions == [position for position, _ in scanned]


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_golden_files(name: str) -> None:
    if name in NOT_DECRYPTED:
        with pytest.raises(BinlogDecodeError):
            events_of(GOLDEN / name)
        check_not_decrypted(GOLDEN / name)
    else:
        compare(name, GOLDEN / name)


@pytest.mark.parametrize("name", CORPUS_FILES)
def test_corpus_files(name: str) -> None:
    require_corpus()
    if name in NOT_DECRYPTED:
        check_not_decrypted(CORPUS / name)
    else:
        compare(name, CORPUS / name)


def test_every_exception_is_a_file() -> None:
    require_corpus()
    assert {*LISTED_BY_MARIADB, *NOT_DECRYPTED} <= {*GOLDEN_FILES, *CORPUS_FILES}
