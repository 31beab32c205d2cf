"""Changes, transactions and binlogs made from Python values; the page and the plugin as a user has them."""

import datetime
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.cli.main import main
from replica_client.testing import make_change, make_transaction, sample_binlogs, write_binlog

PAGE = Path(__file__).parents[3] / "docs" / "content" / "how-to" / "test-your-consumer.md"
VALUES = {
    "small": 7, "big": 2**64 - 1, "negative": -(2**63), "text": "Ünï 山 ✓", "empty": "", "bytes": b"\0\xff",
    "float": 1.5, "decimal": Decimal("-10.50"), "yes": True, "nothing": None,
    "day": datetime.date(2026, 1, 2), "moment": datetime.datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001
    "instant": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    "span": datetime.timedelta(hours=-3, microseconds=5), "document": {"a": [1, None, "ü", {}]}, "list": [],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back(name):
    for kind in ("insert", "update", "delete"):
        rows = {"before": {"id": 1, name: None}, "after": {"id": 1, name: VALUES[name]}}
        given = {"insert": ["after"], "update": ["before", "after"], "delete": ["before"]}[kind]
        if kind == "delete":
            rows["before"] = rows["after"]
        change = make_change("shop.orders", **{one: rows[one] for one in given})
        row = change.before if kind == "delete" else change.after
        value = row[name]
        assert (value.value if name in ("document", "list") else value) == VALUES[name]
        assert (change.kind, change.database, change.table) == (kind, "shop", "orders")
        assert change.key == (1,)


def test_a_made_change_is_that_of_its_binlog(tmp_path, capsys):
    one = make_change("shop.orders", after={"id": 1, **VALUES}, key=("id", "text"))
    two = make_change("shop.orders", before={"id": 1, "text": "a"}, after={"id": 2, "text": "b"})
    when = datetime.datetime(2026, 5, 6, 7, 8, 9, 10, tzinfo=datetime.UTC)
    transaction = make_transaction(one, two, commit_time=when)
    assert transaction.commit_time == when
    assert [change.after for change in transaction.changes] == [one.after, two.after]
    assert [change.shape for change in transaction.changes] == [one.shape, two.shape]
    file = write_binlog(tmp_path, ["CREATE DATABASE shop", one, [one, two], transaction])
    assert file.name == "binlog.000001"
    found = list(rc.open_binlog(file).transactions())
    assert [len(list(each.changes)) for each in found] == [0, 1, 2, 2]
    assert len({each.gtid for each in found}) == 4
    assert main(["check", str(file)]) == 0
    assert "0 faults" in capsys.readouterr().out


def test_the_changes_of_a_server_can_be_written_again(tmp_path):
    changes = list(rc.open_binlog(sample_binlogs()).changes())
    again = list(rc.open_binlog(write_binlog(tmp_path / "binlog.000001", changes)).changes())
    assert [(one.before, one.after) for one in again] == [
        (one.before, one.after) for one in changes
    ]


@pytest.mark.parametrize(("call", "reason"), [
    ("make_change('orders', after={'id': 1})", "write database.table"),
    ("make_change('shop.orders')", "give before=, after= or both"),
    ("make_change('shop.orders', after={})", "give before=, after= or both"),
    ("make_change('shop.orders', after={'a': 1}, key='id')", "the row has the columns a"),
    ("make_change('shop.orders', after={'a': object()})", "column 'a' of object: give int"),
    ("make_change('shop.orders', before={'a': 1}, after={'a': 'x'})", "column 'a' of int, str: give"),
    ("make_change('shop.orders', after={'a': 2**64})", "a BIGINT holds 64 bits"),
    ("make_change('shop.orders', after={'a': Decimal('NaN')})", "a DECIMAL is a finite number"),
    ("make_transaction()", "give a change at least"),
    ("make_transaction(make_change('a.b', after={'a': 1}), gtid='x')", "write UUID:NUMBER"),
    ("write_binlog('/nosuch/x', [5])", "[5] is not a statement, change"),
])  # fmt: skip
def test_what_cannot_be_made_is_one_line(call, reason):
    with pytest.raises(rc.ConfigError, match=re.escape(reason)) as caught:
        eval(call)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("listed", [False, True])
def test_the_page_is_a_test_file_that_pytest_runs(tmp_path, listed):
    """Every test of the page, sync and async, with the fixtures of the installed plugin."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    text = "import replica_client as rc\n" + "\n\n".join(blocks)
    (tmp_path / "test_page.py").write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    (tmp_path / "shop-bin.000001").write_bytes(sample_binlogs()[0].read_bytes())
    plugin = "replica_client.testing.pytest_plugin"
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = [{plugin!r}]\n" if listed else "")
    found = subprocess.run(
        # The entry point of the plugin is read where the package is installed; here it is named.
        [sys.executable, "-m", "pytest", "-q", "-p", plugin, str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert re.search(r"\b5 passed", found.stdout), found.stdout + found.stderr
