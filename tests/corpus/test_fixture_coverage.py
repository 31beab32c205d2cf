"""Every case of every fixture is accounted for: its value, or why there is none.

The checks are in tests/corpus/fixtures; ``-s`` prints the ledger.
"""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from replica_client.errors import BinlogDecodeError, GtidFormatError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet
from tests.corpus.binlogs import require_corpus
from tests.corpus.fixtures import go_events, go_rows, other, wire
from tests.corpus.fixtures.ledger import (
    FIXTURES,
    STATUSES,
    Checker,
    Verdict,
    cases_of,
    fixture_files,
)
from tests.unit.protocol.binlog.events.seed import NO_CHECKSUM, whole_event

GO, JAVA, VITESS = "go-mysql/", "mysql-binlog-connector-java/", "vitess/"

CHECKERS: dict[str, Checker] = {
    f"{GO}conn_test.json": wire.check_connection,
    f"{GO}event_test.json": go_events.check_events,
    f"{GO}handshake_resp_test.json": wire.check_handshake_responses,
    f"{GO}json_binary_test.json": go_events.check_json_binary,
    f"{GO}json_double_mysql8045_text.json": go_events.check_doubles,
    f"{GO}json_mysql_text_test.json": go_events.check_json_text,
    f"{GO}mysql_gtid_test.json": go_events.check_gtid_sets,
    f"{GO}parser_test.json": go_events.check_parser,
    f"{GO}queryattributes_test.json": wire.check_query_attributes,
    f"{GO}result_test.json": wire.check_results,
    f"{GO}row_event_test.json": go_rows.check_row_events,
    f"{GO}transaction_payload_event_test.json": go_events.check_payload,
    "mage-os-database-changelog/test_fixture.json": other.check_mage_os,
    "mtr-BINLOG-statements/events.json": other.check_statements,
    f"{JAVA}AnnotateRowsEventDataDeserializerTest.json": other.check_java_annotate,
    f"{JAVA}JsonPartialUpdateParseTest.json": other.check_java_json,
    f"{JAVA}MariadbGtidEventDataDeserializerTest.json": other.check_java_mariadb_gtid,
    f"{JAVA}MariadbGtidListEventDataDeserializerTest.json": other.check_java_mariadb_gtids,
    f"{JAVA}MysqlGtidEventDataDeserializerTest.json": other.check_java_gtids,
    f"{JAVA}PreviousGtidSetDeserializerTest.json": other.check_java_previous_gtids,
    f"{JAVA}TransactionPayloadEventDataDeserializerTest.json": other.check_java_payload,
    f"{JAVA}XAPrepareEventDataDeserializerTest.json": other.check_java_xa,
    f"{VITESS}binlog_event_common_test.json": other.check_vitess_common,
    f"{VITESS}binlog_event_compression_test.json": other.check_vitess_compression,
    f"{VITESS}binlog_event_mariadb_test.json": other.check_vitess_mariadb,
    f"{VITESS}binlog_event_mysql56_test.json": other.check_vitess_mysql56,
    f"{VITESS}binlog_json_test.json": other.check_vitess_json,
    f"{VITESS}rbr_test.json": other.check_vitess_cells,
}


@pytest.fixture(scope="module", autouse=True)
def _corpus_is_there() -> None:
    require_corpus()


def test_every_file_has_a_checker() -> None:
    assert sorted(CHECKERS) == fixture_files()


@pytest.mark.parametrize("name", sorted(CHECKERS))
def test_every_case_is_accounted_for(name: str) -> None:
    cases = cases_of(name)
    verdicts = CHECKERS[name](cases)
    assert sorted(verdicts) == list(range(len(cases)))
    for at, verdict in verdicts.items():
        assert verdict.status == "value" or verdict.reason, at


def test_counts() -> None:
    """What the ledger comes to; a case that changes its status shows here."""
    totals: Counter[str] = Counter()
    print()
    for name, check in CHECKERS.items():
        verdicts = check(cases_of(name))
        counts = Counter(verdict.status for verdict in verdicts.values())
        totals += counts
        print(f"{len(verdicts):4} {name}: " + ", ".join(f"{n} {s}" for s, n in counts.items()))
        _print_reasons(verdicts)
    print(f"{totals.total()} cases: " + ", ".join(f"{totals[s]} {s}" for s in STATUSES))
    assert totals.total() == sum(len(cases_of(name)) for name in fixture_files())
    assert totals == COUNTS


COUNTS = Counter(
    {"value": 687, "part": 60, "parse only": 40, "wrong at origin": 23, "not a binlog": 31}
)


def _print_reasons(verdicts: dict[int, Verdict]) -> None:
    reasons: dict[Verdict, list[int]] = {}
    for at, verdict in verdicts.items():
        if verdict.status != "value":
            reasons.setdefault(verdict, []).append(at)
    for verdict, indexes in reasons.items():
        shown = ", ".join(map(str, indexes[:8])) + (" …" if len(indexes) > 8 else "")
        print(f"       {verdict.status} ({shown}): {verdict.reason}")


def _go_bytes(text: str) -> bytes:
    """The bytes of a Go literal: ``\\xNN`` is a byte, other characters are UTF-8."""
    literal = text[text.index("(") + 1 : -1]
    found: str = ast.literal_eval(literal.encode().decode("latin-1"))
    return found.encode("latin-1")


def test_other_projects_crashers() -> None:
    """Go fuzz crashers: refused or read, as a GTID set and as an event."""
    files = sorted(path for path in (FIXTURES / "go-mysql" / "fuzz").rglob("*") if path.is_file())
    assert len(files) == 10
    assert {path for path in FIXTURES.rglob("*") if path.is_file()} == {
        *files,
        *(FIXTURES / name for name in CHECKERS),
    }
    outcomes: Counter[str] = Counter()
    for path in files:
        data = _go_bytes(path.read_text(encoding="utf-8").splitlines()[1])
        try:
            value = GtidSet.decode(data)
            assert GtidSet.decode(value.encode()) == value
            outcomes["read"] += 1
        except GtidFormatError:
            outcomes["refused"] += 1
        event = whole_event(EventType.PREVIOUS_GTIDS_LOG_EVENT, data)
        try:
            _ = BinlogDecoder(format=NO_CHECKSUM).decode(event, 4).body.gtid_set
        except BinlogDecodeError:
            outcomes["event refused"] += 1
    assert outcomes["read"] + outcomes["refused"] == len(files)
