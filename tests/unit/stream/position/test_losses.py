"""Counts of what could not be delivered: what each position carries."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from replica_client.errors import ConfigError, PositionStoreError
from replica_client.protocol.position import Position
from replica_client.stream.position import losses
from replica_client.stream.position.losses import LOSS_KINDS, Loss, LossLedger, loss_kinds

LOSS = Loss("unknown_table", "shop", "t", 3, "why", "b.000001", 150, 2, "", 1000)


def _count(ledger: LossLedger) -> list[tuple[str, int, int, int]]:
    return [(one.table, one.events, one.count, one.uncounted) for one in ledger.counts]


def _saved(ledger: LossLedger, position: Position) -> list[tuple[str, int, int, int]]:
    state = json.loads(json.dumps(ledger.to_state(position)))
    return _count(LossLedger.from_state(state))


def test_a_position_carries_what_lies_before_it() -> None:
    ledger = LossLedger()
    ledger.add(LOSS, Position("b.000001", 100))
    ledger.add(replace(LOSS, count=None, position=250), Position("b.000001", 200))
    ledger.add(replace(LOSS, table="u", file="b.000002", position=60), Position("b.000002", 50))
    assert _saved(ledger, Position("b.000001", 100)) == []
    assert _saved(ledger, Position("b.000001", 200)) == [("t", 1, 3, 0)]
    assert _saved(ledger, Position("b.000002", 4)) == [("t", 2, 3, 1)]
    assert _saved(ledger, Position("b.000002", 90)) == [("t", 2, 3, 1), ("u", 1, 3, 0)]
    assert _count(ledger) == [("t", 2, 3, 1), ("u", 1, 3, 0)]


def test_inside_a_transaction_the_index_counts() -> None:
    start = Position("b.000001", 100)
    ledger = LossLedger()
    ledger.add(LOSS, start)
    assert _saved(ledger, replace(start, event_index=2)) == []
    assert _saved(ledger, replace(start, event_index=2, row_index=1)) == [("t", 1, 3, 0)]
    other = LossLedger()
    other.add(LOSS, start)
    assert _saved(other, replace(start, event_index=3)) == [("t", 1, 3, 0)]


def test_a_position_of_another_server_is_behind_all() -> None:
    ledger = LossLedger()
    ledger.add(LOSS, Position("b.000009", 100))
    ledger.forget_positions()
    assert _saved(ledger, Position("a.000001", 200)) == [("t", 1, 3, 0)]


def test_counts_go_on_after_a_restart() -> None:
    ledger = LossLedger()
    ledger.add(LOSS, Position("b.000001", 100))
    again = LossLedger.from_state(ledger.to_state(Position("b.000001", 300)))
    again.add(replace(LOSS, position=350, timestamp=2000), Position("b.000001", 300))
    [count] = again.counts
    assert (count.events, count.count) == (2, 6)
    assert (count.first, count.last) == ("b.000001:150", "b.000001:350")
    assert (count.first_timestamp, count.last_timestamp) == (1000, 2000)
    assert str(count) == (
        "unknown_table of shop.t: 6 rows in 2 events, from b.000001:150 to b.000001:350"
    )


@pytest.mark.parametrize("value", [{}, [1], [{"kind": "statement"}], [{"kind": "other"}], "x"])
def test_damaged_state(value: object) -> None:
    with pytest.raises(PositionStoreError, match="damaged entry about losses"):
        LossLedger.from_state(value)


def test_names_of_kinds() -> None:
    assert loss_kinds(()) == frozenset()
    assert loss_kinds("all") == frozenset(LOSS_KINDS)
    assert loss_kinds("statement, gtid_gap") == {"statement", "gtid_gap"}
    assert loss_kinds(["undecodable", "all"]) == frozenset(LOSS_KINDS)
    with pytest.raises(ConfigError, match="'rows' is not one of all, statement"):
        loss_kinds(["rows"])


def test_what_nobody_acknowledges_is_counted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "_KEPT_PENDING", 4)
    ledger = LossLedger()
    for number in range(1, 6):
        ledger.add(replace(LOSS, position=number * 100), Position("b.000001", number * 100))
    # The older half belongs to every position from now on; a resume may count them twice, and loses none.
    assert _saved(ledger, Position("b.000001", 4)) == [("t", 2, 6, 0)]
    assert _saved(ledger, Position("b.000001", 301)) == [("t", 3, 9, 0)]
    assert _count(ledger) == [("t", 5, 15, 0)]
