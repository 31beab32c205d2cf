"""How far a snapshot is, while tables are made and renamed in the stream."""

from __future__ import annotations

import json

import pytest

from replica_client.errors import PositionStoreError
from replica_client.schema.history import SchemaChange
from replica_client.schema.model import TableModel
from replica_client.service.snapshot_progress import (
    SnapshotProgress,
    SnapshotRequests,
    TableProgress,
)


def change(kind: str, table: str, new: str = "") -> SchemaChange:
    after = TableModel("d", new or table, (), ())
    return SchemaChange(kind, "d", table, None, after, "", "binlog.000001", 4, 0)


def progress() -> SnapshotProgress:
    left = [TableProgress("d", "a", done=[None, [5]], rows=5, key=("id",)), TableProgress("d", "b")]
    return SnapshotProgress(left, {("d", "c")}, True, ["r1"])


def follow(one: SnapshotProgress, *changes: SchemaChange, wanted: str = "abcxyz") -> list[str]:
    one.follow(changes, lambda name: name[1] in wanted)
    return [table.table for table in one.left]


def test_as_json() -> None:
    one = progress()
    assert SnapshotProgress.from_state(json.loads(json.dumps(one.to_state()))) == one
    assert SnapshotProgress.from_state(None) == SnapshotProgress()
    with pytest.raises(PositionStoreError, match="not of this release"):
        SnapshotProgress.from_state({"left": [{"data": 1}]})


def test_what_was_copied_goes_with_its_name() -> None:
    swap = [change("rename_table", *names) for names in ("az", "ba", "zb")]
    one = progress()
    assert follow(one, *swap) == ["b", "a"]
    assert one.left[0].rows == 5
    # A copy that is done, and a table that takes its name.
    one = progress()
    assert follow(one, change("rename_table", "c", "x")) == ["a", "b"]
    assert one.copied == {("d", "x")}
    assert follow(one, change("rename_table", "hidden", "c")) == ["a", "b", "c"]
    assert follow(one, change("rename_table", "hidden", "unwanted")) == ["a", "b", "c"]


def test_a_table_that_had_an_unwanted_name_is_copied_again() -> None:
    """Its rows changed meanwhile, and nobody saw it."""
    there = [change("rename_table", *names) for names in ("cz", "wc", "zw")]
    back = [change("rename_table", *names) for names in ("cz", "wc", "zw")]
    one = SnapshotProgress(copied={("d", "c")})
    wanted = {("d", "c")}
    for changes in (there, back):
        one.follow(changes, wanted.__contains__)
        assert [(left.table, left.copy) for left in one.left] == [("c", 0)]
        assert not one.copied
        one.end()


def test_a_table_of_unknown_definition_takes_a_wanted_name() -> None:
    """The definitions of unwanted tables are not known; the new name is."""
    unknown = SchemaChange(
        "rename_table", "d", "hidden", None, None, False, "", new_name=("d", "x")
    )
    assert unknown.name_after == ("d", "x")
    assert follow(progress(), unknown) == ["a", "b", "x"]
    away = SchemaChange("rename_table", "d", "c", None, None, False, "", new_name=("d", "q"))
    one = progress()
    follow(one, away, wanted="abcq")
    assert one.copied == {("d", "q")}


def test_tables_that_leave_and_tables_that_look_different_are_copied_again() -> None:
    one = progress()
    assert one.forget(lambda name: name[1] != "c") == [("d", "c")]
    assert (one.copied, [left.table for left in one.left]) == (set(), ["a", "b"])
    assert one.forget(lambda name: name[1] != "b") == [("d", "b")]
    assert [left.table for left in one.left] == ["a"]
    # Digests of an older release are not known: nothing is copied.
    one = progress()
    looks = {("d", "c"): "masked"}
    assert one.forget_changed(lambda name: looks.get(name, "")) == []
    one.note_digests(lambda name: looks.get(name, ""))
    assert SnapshotProgress.from_state(one.to_state()).digests == {"d.c": "masked"}
    assert one.forget_changed(lambda name: looks.get(name, "")) == []
    looks = {("d", "b"): "other"}
    assert one.forget_changed(lambda name: looks.get(name, "")) == [("d", "b"), ("d", "c")]
    assert [left.table for left in one.left] == ["a"]


def test_a_table_that_the_stream_makes_needs_no_copy() -> None:
    one = progress()
    assert follow(one, change("create_table", "x"), change("create_table", "q")) == ["a", "b"]
    assert one.copied == {("d", "c"), ("d", "x")}


def test_requests_are_files(tmp_path) -> None:
    requests = SnapshotRequests(tmp_path, "shop.events")
    assert requests.found() == ([], [])
    made = requests.add([("shop", "orders")], "id > 5")
    (requests.directory / "zz.json").write_text("{")
    assert requests.found() == ([made], ["zz"])
    requests.remove("zz")
    requests.remove(made.name)
    assert requests.found() == ([], [])
