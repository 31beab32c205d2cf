"""The file reader on the binlog that ships with the package, whose end state the server's SELECT told."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

import replica_client as rc
from replica_client.errors import BinlogFormatError, TruncatedEventError
from replica_client.rows.json_values import change_to_json
from replica_client.rows.selection import Selection

DATA = Path(rc.__file__).parent / "testing" / "data"
EXPECTED = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
FIRST, SECOND = (DATA / name for name in EXPECTED["files"])


def _text(value: object) -> object:
    """A value as the expectation has it: the server's CAST(… AS CHAR), HEX for bytes."""
    if value is None:
        return None
    return value.hex().upper() if isinstance(value, bytes) else str(value)


def test_changes_lead_to_the_servers_tables() -> None:
    state: dict[str, dict[str, dict[str, object]]] = {}
    for change in rc.open_binlog(DATA).changes():
        table = state.setdefault(change.table, {})
        if change.before is not None:
            assert table.pop(_text(change.before[0])) == {
                k: _text(v) for k, v in change.before.as_dict().items()
            }
        if change.after is not None:
            table[_text(change.after[0])] = {k: _text(v) for k, v in change.after.as_dict().items()}
    for name, rows in EXPECTED["tables"].items():
        key = next(iter(rows[0]))
        assert state[name] == {row[key]: row for row in rows}, name


def test_events_give_positions_that_follow_one_another() -> None:
    end = dict.fromkeys(EXPECTED["files"], 4)
    for event in rc.open_binlog(DATA).events():
        assert event.position == end[event.file]
        end[event.file] = event.end_position
    assert [end[p.name] for p in (FIRST, SECOND)] == [p.stat().st_size for p in (FIRST, SECOND)]


def test_every_start_between_transactions_gives_the_rest() -> None:
    transactions = list(rc.open_binlog(DATA).transactions())
    lines = [[change_to_json(c) for c in t.changes] for t in transactions]
    assert len(transactions) == 18
    for index, transaction in enumerate(transactions):
        rest = rc.open_binlog(DATA, start=transaction.position).transactions()
        got = [[change_to_json(c) for c in t.changes] for t in rest]
        assert got == lines[index + 1 :]


def test_every_stop_between_transactions_gives_what_is_before() -> None:
    transactions = list(rc.open_binlog(DATA).transactions())
    for index, transaction in enumerate(transactions):
        before = list(rc.open_binlog(DATA, stop=transaction.start).transactions())
        assert [t.gtid for t in before] == [t.gtid for t in transactions[:index]]


def test_resume_inside_a_transaction_passes_over_rows_by_index() -> None:
    whole = list(rc.open_binlog(DATA).transactions())
    transaction = max(whole, key=lambda t: len(t.rows))
    changes = list(transaction.changes)
    for done in range(len(changes)):
        change = changes[done]
        start = rc.Position(
            transaction.start.file,
            transaction.start.offset,
            None,
            change.event_index,
            change.row_index,
        )
        resumed = next(iter(rc.open_binlog(DATA, start=start).transactions()))
        assert [change_to_json(c) for c in resumed.changes] == [
            change_to_json(c) for c in changes[done:]
        ]


def test_parts_of_a_transaction_add_up_and_can_be_resumed() -> None:
    whole = [change_to_json(c) for c in rc.open_binlog(DATA).changes()]
    parts_of = rc.AssemblyOptions(Selection(), part_size=1)
    parts = list(rc.open_binlog(DATA, assembly=parts_of).transactions())
    assert any(not part.complete for part in parts)
    assert [change_to_json(c) for part in parts for c in part.changes] == whole
    seen = 0
    for part in parts:
        seen += sum(1 for _ in part.changes)
        rest = [change_to_json(c) for c in rc.open_binlog(DATA, start=part.position).changes()]
        assert rest == whole[seen:]


def test_selection() -> None:
    assert {c.table for c in rc.open_binlog(DATA, tables="shop.o*").changes()} == {"orders"}
    assert {c.table for c in rc.open_binlog(DATA, exclude=["shop.o*"]).changes()} == {
        "customers",
        "products",
    }
    change = next(rc.open_binlog(DATA, tables="shop.products", columns=["title", "sku"]).changes())
    assert change.after is not None
    assert change.after.as_dict() == {"sku": "KET-01", "title": "Kettle"}
    with pytest.raises(rc.ConfigError, match="has no dot"):
        rc.open_binlog(DATA, tables="orders")


def test_row_by_index_by_name_and_as_dict() -> None:
    row = next(rc.open_binlog(DATA).changes()).after
    assert row is not None
    assert (row[1], row["name"], row.as_dict()["name"]) == ("Ada Lovelace",) * 3
    assert row.get("nothing") is None
    with pytest.raises(KeyError):
        row["nothing"]


def test_batches_hold_the_same_rows() -> None:
    changes = list(rc.open_binlog(DATA, tables="shop.orders").changes())
    table = pa.Table.from_batches(rc.open_binlog(DATA, tables="shop.orders").batches())
    table.validate(full=True)
    rows = table.to_pylist()
    assert len(rows) == len(changes) + sum(c.kind == "update" for c in changes)
    post = [r for r in rows if r["_change_type"] != "update_preimage"]
    for change, row in zip(changes, post, strict=True):
        image = change.after if change.after is not None else change.before
        assert image is not None
        assert row["id"] == image["id"]
        assert row["total"] == image["total"]
        assert row["state"] == str(image["state"])
        assert row["placed"] == image["placed"].to_python()
        assert (row["packing"] is None) == (image["packing"] is None)
        assert row["_offset"] == change.offset
    assert table.column("_commit_version").to_pylist() == sorted(
        table.column("_commit_version").to_pylist()
    )


def test_small_batches_are_cut_at_max_rows() -> None:
    batches = list(rc.open_binlog(DATA).batches(max_rows=5))
    assert max(b.num_rows for b in batches) <= 5
    assert sum(b.num_rows for b in batches) == 120


@pytest.mark.parametrize("size", [20, 150, 1700, 9000])
def test_truncated_file_delivers_all_before_the_fault(tmp_path: Path, size: int) -> None:
    path = tmp_path / FIRST.name
    path.write_bytes(FIRST.read_bytes()[:size])
    whole = [e for e in rc.open_binlog(FIRST).events() if e.end_position <= size]
    got = []
    with pytest.raises(TruncatedEventError) as caught:
        for event in rc.open_binlog(path).events():
            got.append(event)
    assert [(e.position, e.body) for e in got] == [(e.position, e.body) for e in whole]
    assert caught.value.file == FIRST.name
    assert caught.value.position == (whole[-1].end_position if whole else 4)


def test_not_a_binlog_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.000001"
    path.write_bytes(b"hello world")
    with pytest.raises(BinlogFormatError, match=r"notes\.000001.*not a binlog"):
        list(rc.open_binlog(path).events())
    with pytest.raises(rc.ConfigError, match="no such file"):
        rc.open_binlog(tmp_path / "absent.000001")
    with pytest.raises(rc.ConfigError, match="no binlog file"):
        (tmp_path / "empty").mkdir()
        rc.open_binlog(tmp_path / "empty")


def test_file_object() -> None:
    stream = io.BytesIO(FIRST.read_bytes())
    assert sum(1 for _ in rc.open_binlog(stream).events()) == sum(
        1 for _ in rc.open_binlog(FIRST).events()
    )


def test_start_that_is_none() -> None:
    with pytest.raises(rc.ConfigError, match="is not understood"):
        rc.open_binlog(DATA, start="yesterday")
    with pytest.raises(rc.ConfigError, match="no such file among"):
        list(rc.open_binlog(DATA, start="other.000009:4").events())
