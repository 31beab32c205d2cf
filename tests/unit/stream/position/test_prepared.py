"""XA transactions that are pending: xids, and what a checkpoint of a position keeps of them."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import DataLossError, PositionStoreError
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.position import Position
from replica_client.stream.position import prepared
from replica_client.stream.position.prepared import (
    PreparedLedger,
    PreparedTransaction,
    XaId,
    xa_end,
)

PARTS = st.binary(max_size=64)
FORMATS = st.integers(0, (1 << 32) - 1)


def xid(name: bytes) -> XaId:
    return XaId(1, name, b"")


def at(offset: int, file: str = "b.000001") -> Position:
    return Position(file, offset)


def pending(ledger: PreparedLedger, position: Position) -> list[bytes]:
    """The gtrids that the checkpoint of a position keeps, through JSON."""
    state = json.loads(json.dumps(ledger.to_state(position)))
    again = PreparedLedger.from_state(state)
    assert again.to_state(position) == state
    found = [XaId.parse(one["xid"].encode()) for one in state]
    return [one.gtrid for one in found if one is not None and again.find(one) is not None]


@given(FORMATS, PARTS, PARTS)
def test_xid_text_is_read_back(format_id: int, gtrid: bytes, bqual: bytes) -> None:
    one = XaId(format_id, gtrid, bqual)
    assert XaId.parse(str(one).encode("ascii")) == one
    for words, commits in ((b"COMMIT", True), (b"ROLLBACK", False)):
        end = xa_end(b"XA " + words + b" " + str(one).encode("ascii"))
        assert end is not None and (end.xid, end.commits) == (one, commits)


@given(st.binary(max_size=200))
def test_any_text_is_an_xid_or_none(text: bytes) -> None:
    one = XaId.parse(text)
    assert one is None or XaId.parse(str(one).encode("ascii")) == one
    end = xa_end(b"XA COMMIT " + text)
    assert end is None or end.commits


def test_number_with_a_sign_and_without_are_one() -> None:
    assert XaId.of(-1, b"g", b"b") == XaId.parse(b"X'67',X'62',4294967295")
    assert XaId.parse(b"x'67' , X'62',-1") == XaId.parse(b"X'67',X'62',4294967295")


@pytest.mark.parametrize(
    "query",
    [
        b"COMMIT",
        b"XA START X'01',X'',1",
        b"XA END X'01',X'',1",
        b"XA COMMIT X'01',X'',1 ONE PHASE",
        b"XA RECOVER",
        b"XA",
        b"",
    ],
)
def test_statements_that_end_no_prepared_transaction(query: bytes) -> None:
    assert xa_end(query) is None


@pytest.mark.parametrize("text", [b"'abc'", b"X'0',X'',1", b"X'" + b"00" * 65 + b"',X'',1", b""])
def test_end_of_an_xid_that_cannot_be_read(text: bytes) -> None:
    end = xa_end(b"XA COMMIT " + text)
    assert end is None or (end.xid is None and end.commits)


def test_checkpoint_keeps_what_is_pending_at_its_position() -> None:
    ledger = PreparedLedger()
    ledger.prepare(PreparedTransaction(xid(b"a"), at(100), "gtid:1"))
    ledger.prepare(PreparedTransaction(xid(b"b"), at(300), ""))
    ledger.end(xid(b"a"), at(500))
    ledger.prepare(PreparedTransaction(xid(b"a"), at(700), "gtid:4"))
    ledger.end(xid(b"b"), at(4, "b.000002"))
    # Positions come in the order of acknowledgement, behind the order of reading.
    assert pending(ledger, at(100)) == []
    assert pending(ledger, at(200)) == [b"a"]
    assert pending(ledger, at(500)) == [b"a", b"b"]
    inside = Position("b.000001", 500, GtidSet(), 3, 1)  # a part of the XA COMMIT was delivered
    assert pending(ledger, inside) == [b"a", b"b"]
    assert pending(ledger, at(600)) == [b"b"]
    assert pending(ledger, at(800)) == [b"b", b"a"]
    assert pending(ledger, at(4, "b.000002")) == [b"b", b"a"]
    assert pending(ledger, at(5, "b.000002")) == [b"a"]
    assert pending(ledger, Position("", 0, GtidSet())) == [b"a"]


def test_position_is_kept() -> None:
    ledger = PreparedLedger()
    one = PreparedTransaction(XaId(7, b"\x00'\xff", b"\n"), Position("b%c.000009", 1 << 40), "g:1")
    ledger.prepare(one)
    state = json.loads(json.dumps(ledger.to_state(at(1, "b%c.000010"))))
    assert PreparedLedger.from_state(state).find(one.xid) == one


def test_on_another_server_positions_mean_nothing() -> None:
    ledger = PreparedLedger()
    ledger.prepare(PreparedTransaction(xid(b"a"), at(100), "gtid:1"))
    ledger.prepare(PreparedTransaction(xid(b"b"), at(200), "gtid:2"))
    ledger.end(xid(b"b"), at(300))
    ledger.forget_positions()
    found = ledger.find(xid(b"a"))
    assert found is not None and (found.start.file, found.gtid) == ("", "gtid:1")
    assert pending(ledger, at(4, "other.000001")) == [b"a"]


def test_copy_goes_on_by_itself() -> None:
    ledger = PreparedLedger()
    ledger.prepare(PreparedTransaction(xid(b"a"), at(100), ""))
    other = ledger.copy()
    other.end(xid(b"a"), at(200))
    assert pending(ledger, at(900)) == [b"a"]
    assert pending(other, at(900)) == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "MAX_PENDING", 10)
    monkeypatch.setattr(prepared, "_KEPT_ENDED", 10)
    ledger = PreparedLedger()
    for number in range(100):
        ledger.prepare(PreparedTransaction(xid(b"x"), at(2 * number), ""))
        ledger.end(xid(b"x"), at(2 * number + 1))
    assert len(ledger.to_state(at(0))) == 0
    assert len(ledger.copy()._ended) <= 10
    for number in range(10):
        ledger.prepare(PreparedTransaction(xid(b"%d" % number), at(1000 + number), ""))
    with pytest.raises(DataLossError, match=r"more than 10 XA transactions.*XA RECOVER"):
        ledger.prepare(PreparedTransaction(xid(b"one more"), at(2000), ""))


@pytest.mark.parametrize(
    "value",
    [
        {},
        "text",
        [1],
        [{}],
        [{"xid": "X'01',X'',1", "file": "b", "offset": "4", "gtid": ""}],
        [{"xid": "X'01',X'',1", "file": "b", "offset": -4, "gtid": ""}],
        [{"xid": "X'01',X'',1", "file": "b", "offset": True, "gtid": ""}],
        [{"xid": "X'01',X'',1", "file": None, "offset": 4, "gtid": ""}],
        [{"xid": "'abc'", "file": "b", "offset": 4, "gtid": ""}],
        [{"xid": "ü", "file": "b", "offset": 4, "gtid": ""}],
    ],
)
def test_damaged_state_is_refused(value: Any) -> None:
    with pytest.raises(PositionStoreError, match="XA transactions"):
        PreparedLedger.from_state(value)
