"""Rows that ask for snapshots: what is understood, and what is refused."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest

from replica_client.service.signals import Signal
from replica_client.service.snapshot_progress import SnapshotProgress, TableProgress

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
        (["shop.*"], ["shop.a.b", "shop.items", "shop.orders"]),
        (["*.orders"], ["other.orders", "shop.orders"]),
        (["shop.?tems"], ["shop.items"]),
        ([r"shop\.(orders|items)"], ["shop.items", "shop.orders"]),
        ([".*"], ["other.orders", "shop.a.b", "shop.items", "shop.orders"]),
        (["`shop`.`a.b`"], ["shop.a.b"]),
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
        ("not json", "not JSON"),
        ("[" * 60_000, "not JSON"),
        ("[" * 100_000, "data at most"),
        ("[]", "not a JSON object"),
        ("{}", "data-collections is missing"),
        ({"data-collections": "shop.orders"}, "not a list of names"),
        ({"data-collections": [1]}, "not a list of names"),
        ({"data-collections": ["("]}, "neither DATABASE.TABLE nor a pattern"),
        ({"data-collections": ["shop"]}, "neither DATABASE.TABLE nor a pattern"),
        ({"data-collections": ["`shop.a"]}, "neither DATABASE.TABLE nor a pattern"),
        ({"data-collections": ["(a+)+\\.b"]}, "neither DATABASE.TABLE nor a pattern"),
        ({"data-collections": ["(.*)*(.*)*(.*)*(.*)*(.*)*!"]}, "neither DATABASE.TABLE"),
        ({"data-collections": ["a.b", "a." + "b" * 300]}, "at most 300 characters"),
        ({"data-collections": [f"a.t{n}" for n in range(1001)]}, "at most 1000 tables"),
        ({"data-collections": [f"a.t{n}*" for n in range(21)]}, "at most 20 patterns"),
        ({"data-collections": ["a.(" + "|".join("bcdefg") + ")"] * 17}, "at most 100 alternatives"),
        ('{"data-collections": ["a.b", "\\ud800.c"]}', "not JSON"),
        (
            '{"data-collections": ["a.b"], "additional-conditions": [{"data-collection": "a.b", '
            '"filter": "c = \'\\udfff\'"}]}',
            "not JSON",
        ),
        ({"data-collections": ["a.b"], "x": "y" * (1 << 16)}, "data at most"),
        ({"data-collections": ["a.b"], "type": "initial"}, "neither incremental nor blocking"),
        ({"data-collections": ["a.b"], "additional-conditions": {}}, "not a list"),
        ({"data-collections": ["a.b"], "additional-conditions": ["x"]}, "not a JSON object"),
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


def _filtered(where: str) -> dict[str, Any]:
    conditions = [{"data-collection": "shop.orders", "filter": where}]
    return {"data-collections": ["shop.orders"], "additional-conditions": conditions}


@pytest.mark.parametrize(
    "where",
    [
        "1=0) UNION ALL SELECT amount, who FROM private.salaries WHERE (1=1",
        "id = 2 AND (SELECT max(amount) FROM private.salaries) = 5",
        "SLEEP(600)=0",
        "id = 1 OR EXTRACTVALUE(1, concat(0x7e, @@version))",
        "email LIKE 'b%'",
        "id = 1 -- x",
        "id = 1 /* x */",
        "id = @@port",
        "shop.orders.id = 1",
        "SELECT * FROM shop.orders WHERE id IN (SELECT 1)",
        "GET_LOCK('a', 600) = 1",
        "id = 0x31",
    ],
)
def test_sql_is_no_filter_unless_the_configuration_says_so(where) -> None:
    with pytest.raises(ValueError, match="signal_raw_filters"):
        signal(_filtered(where))
    raw = Signal.of_row(("s", "execute-snapshot", json.dumps(_filtered(where))), raw=True)
    assert raw is not None and raw.raw
    progress = SnapshotProgress(signals=[raw])
    assert progress.expand(TABLES) == []
    assert progress.left[0].where and not progress.left[0].filter


def test_a_filter_is_never_sql_of_its_author() -> None:
    progress = SnapshotProgress(signals=[signal(_filtered("id > 2"))])
    progress.expand(TABLES)
    assert (progress.left[0].where, progress.left[0].filter) == ("", "id > 2")
    # The state of a release in which filters were SQL.
    old = progress.to_state() | {
        "signals": [{"id": "signal a", "tables": ["(.*)*!"], "conditions": [["a.b", "x"]],
                     "blocking": False}]
    }  # fmt: skip
    found = SnapshotProgress.from_state(json.loads(json.dumps(old)))
    assert found.signals[0].raw and [one.id for one in found.expand(TABLES)] == ["signal a"]


@pytest.mark.parametrize(
    "text",
    [
        "(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*!", "(a|a)*b.c", "(a+)+$", "a.b" * 90,
        "*a" * 40 + ".b", "s.*" + "a*" * 100 + "!", "x.?*?*?*?*?*?*?*?*?*?*?*?*?*?*!", r"\w*" * 60,
        "a.[^.]*[^.]*[^.]*[^.]*[^.]*[^.]*[^.]*[^.]*!", "|" * 290, "(" * 290, "." * 290, "`" * 290,
        "a.b|" * 70, "^" * 200, " " * 400 + "!",
    ],
)  # fmt: skip
def test_no_text_makes_a_comparison_long(text) -> None:
    begun = time.process_time()
    names = [("a" * 64, "a" * 64), ("s", "a" * 63 + "!"), ("x", "y" * 64)] * 20
    for kind in ("execute-snapshot", "stop-snapshot"):
        try:
            one = signal({"data-collections": [text], "type": "incremental"}, kind)
        except ValueError:
            continue
        one.names(names)
        one.stops(names[0])
    for where in (text, ";" * 60_000 + "x", "SELECT" + " " * 60_000):
        with contextlib.suppress(ValueError):
            signal(_filtered(where))
    assert time.process_time() - begun < 1


def test_more_signals_than_a_checkpoint_holds_are_refused() -> None:
    progress = SnapshotProgress()
    taken = [progress.take(signal({"data-collections": ["a.b"]}, name=str(n))) for n in range(300)]
    assert sum(taken) == len(progress.signals) == 100
    assert progress.take(signal("{}", "stop-snapshot")) and progress.signals == []


def test_rows_that_are_no_signal() -> None:
    assert Signal.of_row(("a", "log", '{"message": "x"}')) is None
    assert Signal.of_row((b"a", b"snapshot-window-open", None)) is None
    with pytest.raises(ValueError, match="columns id, type and data"):
        Signal.of_row(("a", "execute-snapshot"))


def test_progress_takes_signals_in_order() -> None:
    first = TableProgress("shop", "items")
    progress = SnapshotProgress([first])
    progress.take(signal({"data-collections": ["shop.*s"], "type": "blocking"}, name="one"))
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
