"""Merged tables, deletes that become marks, and outboxes: rows, Arrow columns, copies and definitions agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replica_client as rc
from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.json_values import change_to_json
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.stored_names import check_same_columns, is_followed
from replica_client.stream.tables.net_changes import CopyNeededError
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transforms.declaration import read_transforms
from replica_client.stream.transforms.table_plan import TablePlan
from replica_client.stream.transforms.transformer import Transformer

DATA = Path(rc.__file__).parent / "testing" / "data"
FILES = [DATA / "shop-bin.000001", DATA / "shop-bin.000002"]
KEY = "0123456789abcdef"
SHARD = {"route": "one.{table}", "shard": {"shard": "{database}"}}


def transformer(**keys: Any) -> Transformer:
    return Transformer(read_transforms([{"tables": ["shop.*"], **keys}]))


def shop() -> list[Transaction]:
    return list(rc.open_binlog(FILES).transactions())


def given(made: Transformer) -> list[Transaction]:
    """What is not about the database as a whole."""
    found = []
    for one in shop():
        changes = tuple(change for change in one.schema_changes if change.table)
        found.append(made.transaction(one.__replace__(schema_changes=changes), ("statement",)))
    return found


def test_a_shard_is_the_first_column_of_rows_and_key() -> None:
    plain = [change for one in shop() for change in one.changes]
    made = [change for one in given(transformer(**SHARD)) for change in one.changes]
    for one, other in zip(plain, made, strict=True):
        assert (other.database, other.table) == ("one", one.table)
        for row, image in ((one.before, other.before), (one.after, other.after)):
            if row is None or image is None:
                assert row is image
                continue
            assert image.columns == ("shard", *row.columns)
            assert tuple(image) == ("shop", *row)
        key = [one.shape.columns[at].name for at in one.shape.primary_key]
        keyed = [other.shape.columns[at].name for at in other.shape.primary_key]
        assert keyed == (["shard", *key] if key else [])


def test_deletes_become_updates_of_a_marker() -> None:
    plain = [change for one in shop() for change in one.changes]
    made = [change for one in given(transformer(soft_delete="gone")) for change in one.changes]
    deletes = 0
    for one, other in zip(plain, made, strict=True):
        assert (one.file, one.offset, one.row_index) == (
            other.file,
            other.offset,
            other.row_index,
        )
        if one.kind != "delete":
            assert other.kind == one.kind
            for row, image in ((one.before, other.before), (one.after, other.after)):
                assert (row is None) == (image is None)
                if row is not None and image is not None:
                    assert tuple(image) == (*row, 0)
            continue
        deletes += 1
        assert other.kind == "update"
        assert other.before is not None
        assert other.after is not None
        assert one.before is not None
        assert tuple(other.before) == (*one.before, 0)
        assert tuple(other.after) == (*one.before, 1)
    assert deletes == 3


def test_a_row_that_ceases_to_be_given_is_marked() -> None:
    """With all of it together: a condition, hidden columns, a shard and a marker."""
    keys = {"keep": ["*"], "hash": ["email"], "key": KEY, "where": "country != 'DE'"}
    made = Transformer(
        read_transforms([{"tables": ["shop.customers"], **keys, **SHARD, "soft_delete": "gone"}])
    )
    rows: dict[Any, Any] = {}
    for one in given(made):
        for change in one.changes:
            if change.table != "customers" or change.after is None:
                continue
            assert change.kind != "delete"
            assert change.after["shard"] == "shop"
            rows[change.after["id"]] = change.after
    wanted: dict[Any, Any] = {}
    for one in shop():
        for change in one.changes:
            if change.table == "customers":
                if change.before is not None:
                    wanted.pop(change.before["id"])
                if change.after is not None:
                    wanted[change.after["id"]] = change.after
    present = {key for key, row in rows.items() if not row["gone"]}
    assert present == {key for key, row in wanted.items() if row["country"] != "DE"}


@pytest.mark.parametrize(
    "keys",
    [SHARD, {"soft_delete": "gone"}, {**SHARD, "soft_delete": "gone", "keep": ["*"], "mask": {}}],
)
def test_rows_and_arrow_columns_agree(keys: dict[str, Any]) -> None:
    """One implementation: what Python rows say, Arrow columns say, in every table."""
    added, compared = {"shard", "gone"}, 0
    for transaction in given(transformer(**keys)):
        for rows in transaction.rows:
            assembler = BatchAssembler(1000, rows.decoder.options)
            batches = [*assembler.add((rows,), "v", 1), *assembler.flush()]
            table = pa.Table.from_batches(batches).to_pydict()
            images = [
                image
                for change in rows
                for image in (change.before, change.after)
                if image is not None
            ]
            for column in rows.shape.column_names:
                expected = [image[column] for image in images]
                if column in added or isinstance(expected[0], int):
                    assert table[column] == expected
                    compared += column in added
    assert compared


def test_definitions_and_copies_have_the_columns_of_rows() -> None:
    keys = {**SHARD, "soft_delete": "gone"}
    made, transforms = transformer(**keys), read_transforms([{"tables": ["shop.*"], **keys}])
    models: dict[str, Any] = {}
    sources: dict[str, Any] = {}
    compared = 0
    for plain, shown in zip(shop(), given(made), strict=True):
        for change in plain.schema_changes:
            if change.after is not None and change.table:
                sources[change.after.name] = change.after
        for change in shown.schema_changes:
            assert change.merged
            if change.after is not None:
                models[change.after.name] = change.after
        for rows in shown.rows:
            model, source = models[rows.shape.table], sources[rows.shape.table]
            shape = shape_of(model, ServerFlavor.MYSQL)
            assert shape.column_names == rows.shape.column_names
            assert shape.primary_key == rows.shape.primary_key
            check_same_columns(model, rows.shape.columns)
            plan = TablePlan.of(transforms, "shop", rows.shape.table)
            assert plan is not None
            values = next(iter(rows))
            row = values.before or values.after
            assert row is not None
            (copied,) = plan.rows(source, [row[1:-1]])  # type: ignore[list-item]
            assert copied.columns == row.columns
            assert tuple(copied) == (*row[:-1], 0)
            compared += 1
    assert compared > 5


def statement(kind: str, database: str = "shop", after: Any = None) -> Transaction:
    change = rc.SchemaChange(kind, database, "customers", None, after, True, "x", "b.1", 4)
    return shop()[0].__replace__(schema_changes=(change,))


@pytest.mark.parametrize("kind", ["drop_table", "truncate_table"])
def test_what_is_done_to_one_shard_is_no_statement_about_all(kind: str) -> None:
    made = transformer(**SHARD)
    with pytest.raises(DataLossError, match=r"of shop\.customers, .* record_losses"):
        made.transaction(statement(kind))
    shown = made.transaction(statement(kind), ("statement",))
    assert shown.schema_changes == ()
    (loss,) = shown.losses
    assert (loss.kind, loss.database, loss.table, loss.count) == (
        "statement",
        "one",
        "customers",
        None,
    )


def test_a_shard_that_is_renamed_in_or_out() -> None:
    """Its rows come or go with it, which no row image says."""
    model = next(
        change.after
        for one in shop()
        for change in one.schema_changes
        if (change.kind, change.table) == ("create_table", "customers")
    )
    assert model is not None
    made = transformer(**SHARD)
    out = made.transaction(
        statement("rename_table", after=model.renamed("old", "t")), ("statement",)
    )
    assert {(loss.database, loss.table) for loss in out.losses} == {
        ("one", "customers"),
        ("old", "t"),
    }
    into = made.transaction(
        statement("rename_table", "old", model.renamed("shop", "t")), ("statement",)
    )
    assert [(one.kind, one.database, one.table) for one in into.schema_changes] == [
        ("drop_table", "old", "customers")
    ]
    assert [(loss.database, loss.table) for loss in into.losses] == [("one", "t")]


def test_tables_become_one_only_where_something_tells_them_apart() -> None:
    made = Transformer(
        read_transforms(
            [{"tables": ["a*.*"], "route": "one.t", "shard": {"s": "{database}"}}]
            + [{"tables": ["b.*"], "route": "one.t"}]
            + [{"tables": ["c.*"], "route": "one.t", "shard": {"other": "{database}"}}]
        )
    )
    for name in ("a1", "a2", "a3"):
        assert made.target(name, "t") == ("one", "t")
    for database, table in (("a1", "u"), ("b", "t"), ("c", "t"), ("one", "t")):
        with pytest.raises(ConfigError, match=r"would both be one\.t"):
            made.plan(database, table)


def test_a_merged_table_follows_when_shards_are_altered_one_by_one() -> None:
    before = TableModel("one", "t", (ColumnModel("a", "int"),))
    after = TableModel("one", "t", (ColumnModel("a", "bigint"),))
    third = TableModel("one", "t", (ColumnModel("a", "text"),))
    first = rc.SchemaChange("alter_table", "one", "t", before, after, True, "x", merged=True)
    assert not is_followed(before, first)
    assert is_followed(after, first)
    assert not is_followed(None, first)
    with pytest.raises(CopyNeededError, match="do not look alike"):
        is_followed(third, first)
    created = rc.SchemaChange("create_table", "one", "t", None, after, True, "x", merged=True)
    assert is_followed(after, created)
    with pytest.raises(CopyNeededError):
        is_followed(before, created)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"shard": {"s": "{database}"}}, "shard: it needs route"),
        ({"route": "a.b", "shard": {"s": "x"}}, "shard: it must be a text with"),
        ({"route": "a.b", "shard": {"s": "{server}"}}, "shard: {server}"),
        ({"route": "a.b", "shard": {"s": "{table}", "t": "{table}"}}, "one column"),
        ({"route": "a.b", "shard": {"s": "{table}" * 4}}, "more than 255"),
        ({"soft_delete": ""}, "soft_delete: it must be the name"),
        ({"outbox": 3}, "outbox: it must be true, or"),
        ({"outbox": {"color": "red"}}, "outbox: color is not known"),
        ({"outbox": {"topic": "{table}"}}, "topic: {table}"),
        ({"outbox": {"headers": {"id": "x"}}}, "id is the message's own"),
        ({"outbox": True, "soft_delete": "gone"}, "remove soft_delete"),
    ],
)
def test_wrong_declarations_are_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match="(?s).*" + text.replace("{", r"\{")):
        read_transforms([{"tables": ["shop.t"], **keys}])


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({**SHARD, "shard": {"EMAIL": "{database}"}}, "one name"),
        ({"soft_delete": "id"}, "one name"),
        ({"outbox": True}, "outbox: there is no column aggregateid"),
    ],
)
def test_what_does_not_fit_a_table_stops(keys: dict[str, Any], text: str) -> None:
    made = Transformer(read_transforms([{"tables": ["shop.customers"], **keys}]))
    with pytest.raises(ConfigError, match=text):
        given(made)


def test_lines_agree_with_rows() -> None:
    """The format that writes images without rows between sees the same."""
    from replica_client.sinks.formats.line_format import make_format

    for one in given(transformer(**SHARD, soft_delete="gone")):
        lines = [
            line
            for line in make_format("native", {}).lines(one.__replace__(schema_changes=()))
            if '"kind": "loss"' not in line
        ]
        assert lines == [change_to_json(change) for change in one.changes]


def test_a_stream_of_rows_refuses_an_outbox() -> None:
    with pytest.raises(ConfigError, match="makes messages for sinks"):
        rc.connect("mysql://nobody@127.0.0.1:1/", transform=[{"tables": ["a.b"], "outbox": True}])
