"""Rows that ask for snapshots: what is understood, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replica_client.daemon.signals import Signal
from replica_client.daemon.snapshot_progress import SnapshotProgress, TableProgress

TABLES = [("shop", "orders"), ("shop", "items"), ("other", "orders"), ("shop", "a.b")]


def signal(document: Any, kind: str = "execute-snapshot", name: str = "s") -> Signal:
    text = document if isinstance(document, str) else json.dumps(document)
    found = Signal.of_row((name, kind, text))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["shop.orders", "shop.items"], ["shop.orders", "shop.items"]),
        (["shop.items", "shop.orders", "shop.items"], ["shop.items", "shop.orders"]),
        ([r"shop\..*"], ["shop.a.b", "shop.items", "shop.orders"]),
        (["shop.a.b"], ["shop.a.b"]),
        ([" shop.orders "], ["shop.orders"]),
        (["shop.order", "hop.orders"], []),
    ],
)
def test_which_tables_are_meant(texts, names) -> None:
    found = signal({"data-collections": texts}).names(TABLES)
    assert [".".join(one) for one in found] == names


@pytest.mark.parametrize(
    ("where", "taken"),
    [
        ("id > 2", "id > 2"),
        ("SELECT * FROM shop.orders WHERE id > 2", "id > 2"),
        ("select * from `shop`.`orders` where\nid > 2 ; ", "id > 2"),
    ],
)
def test_conditions_are_of_their_table(where, taken) -> None:
    one = signal(
        {
            "data-collections": ["shop.orders", "shop.items"],
            "type": "BLOCKING",
            "additional-conditions": [{"data-collection": "shop.orders", "filter": where}],
        }
    )
    assert one.blocking
    assert (one.where(("shop", "orders")), one.where(("shop", "items"))) == (taken, "")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("not json", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "data-collections is missing"),
        ({"data-collections": "shop.orders"}, "no list of names"),
        ({"data-collections": [1]}, "no list of names"),
        ({"data-collections": ["("]}, "neither a name nor a regular expression"),
        ({"data-collections": ["a.b"], "type": "initial"}, "neither incremental nor blocking"),
        ({"data-collections": ["a.b"], "additional-conditions": {}}, "no list"),
        ({"data-collections": ["a.b"], "additional-conditions": ["x"]}, "no JSON object"),
        (
            {"data-collections": ["a.b"], "additional-conditions": [{"filter": "x"}]},
            "a data-collection and a filter",
        ),
        (
            {
                "data-collections": ["a.b"],
                "additional-conditions": [
                    {"data-collection": "a.b", "filter": "SELECT id FROM a.b LIMIT 1"}
                ],
            },
            "a condition",
        ),
    ],
)
def test_what_is_no_signal_is_refused(document, why) -> None:
    with pytest.raises(ValueError, match=why):
        signal(document)


def test_rows_that_are_no_signal() -> None:
    assert Signal.of_row(("a", "log", '{"message": "x"}')) is None
    assert Signal.of_row((b"a", b"snapshot-window-open", None)) is None
    with pytest.raises(ValueError, match="columns id, type and data"):
        Signal.of_row(("a", "execute-snapshot"))


def test_progress_takes_signals_in_order() -> None:
    first = TableProgress("shop", "items")
    progress = SnapshotProgress([first])
    progress.take(signal({"data-collections": [r"shop\.[io].*"], "type": "blocking"}, name="one"))
    progress.take(signal({"data-collections": ["no.table"]}, name="two"))
    assert SnapshotProgress.from_state(json.loads(json.dumps(progress.to_state()))) == progress
    assert [one.id for one in progress.expand(TABLES)] == ["signal two"]
    assert progress.left == [
        first,
        TableProgress("shop", "items", "signal one", blocking=True),
        TableProgress("shop", "orders", "signal one", blocking=True),
    ]
    progress.take(signal({"data-collections": ["shop.orders"]}, "stop-snapshot"))
    assert [one.table for one in progress.left] == ["items", "items"]
    progress.take(signal("{}", "stop-snapshot"))
    assert progress.left == [first]


def test_a_stop_ends_what_was_just_asked_for() -> None:
    progress = SnapshotProgress()
    progress.take(signal({"data-collections": ["shop.orders"]}))
    progress.take(
        signal({"data-collections": ["shop.orders"], "type": "incremental"}, "stop-snapshot")
    )
    assert progress.expand(TABLES) == [] and progress.left == []
