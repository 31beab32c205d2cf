"""Transforms on the rows of real servers: what is kept is as it was, what is hidden is nowhere."""

from __future__ import annotations

import hashlib
import hmac
import string
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import ConfigError, ReplicaClientError
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.json_lines import JsonLines
from replica_client.rows.json_values import change_to_json, value_to_json
from replica_client.schema.character_sets import charset_of_id
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.column_models import column_model
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transforms.column_rules import (
    mask_rule,
    ruled_model,
    ruled_shape,
    tokenise_rule,
)
from replica_client.stream.transforms.declaration import read_transforms
from replica_client.stream.transforms.table_plan import TablePlan
from replica_client.stream.transforms.transformer import WITHHELD, Transformer

DATA = Path(rc.__file__).parent / "testing" / "data"
GOLDEN = Path(__file__).parents[3] / "golden"
FILES = [
    *sorted(GOLDEN.glob("mysql-9.7*/*.binlog")),
    *sorted(GOLDEN.glob("mysql-5.6*/rows.binlog")),
    *sorted(GOLDEN.glob("mariadb-11*/*.binlog")),
    DATA / "shop-bin.000001",
]
IDS = [f"{path.parent.name}/{path.stem}" for path in FILES]
KEY = "0123456789abcdef"


def transformer(**keys: Any) -> Transformer:
    return Transformer(read_transforms([{"tables": ["*.*"], **keys}]))


def transactions(path: Path) -> Iterator[Transaction]:
    """Those of a file up to where it cannot be read."""
    try:
        yield from rc.open_binlog(path).transactions()
    except ReplicaClientError:
        return


def takes(transaction: Transaction) -> bool:
    """Whether all names are known and no image is a part of one."""
    return all(
        rows.shape.names_resolved and "Partial" not in type(rows.event.body).__name__
        for rows in transaction.rows
    )


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_what_is_kept_is_as_it_was(path: Path) -> None:
    """All columns, and every second one: the values and indexes of all rows stay, in every type."""
    for transaction in transactions(path):
        if not takes(transaction):
            continue
        transaction = transaction.__replace__(schema_changes=())
        names = {name for rows in transaction.rows for name in rows.shape.column_names[::2]}
        whole = transformer(keep=["*"]).transaction(transaction)
        half = transformer(keep=sorted(names)).transaction(transaction)
        for one, same, less in zip(transaction.changes, whole.changes, half.changes, strict=True):
            assert change_to_json(one) == change_to_json(same)
            assert (one.row_index, one.event_index, one.file) == (
                less.row_index,
                less.event_index,
                less.file,
            )
            for row, image in ((one.before, less.before), (one.after, less.after)):
                if row is None or image is None:
                    assert row is image
                    continue
                assert image.columns == tuple(name for name in row.columns if name in names)
                assert [image[name] for name in image.columns] == [
                    row[name] for name in image.columns
                ]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_hashes_are_those_of_the_values(path: Path) -> None:
    """Of every type; texts of compiled code and of plain Python agree, and the event can be written again."""
    for transaction in transactions(path):
        if not takes(transaction):
            continue
        hashed = transformer(keep=[], hash=["*"], key=KEY).transaction(transaction)
        for one, other in zip(transaction.changes, hashed.changes, strict=True):
            for row, image in ((one.before, other.before), (one.after, other.after)):
                for value, text in zip(row or (), image or (), strict=True):
                    if value is None or value is rc.ABSENT:
                        assert text is value
                        continue
                    data = str(value) if isinstance(value, str) else value_to_json(value)
                    expected = hmac.new(KEY.encode(), data.encode(), hashlib.sha256)
                    assert text == expected.hexdigest()
        for rows in hashed.rows:
            lines = JsonLines()
            lines.rows(rows)
            assert lines.take().decode().splitlines() == [change_to_json(one) for one in rows]
            assert encode_event(rows.event, DEFAULT_CONTEXT.format)


def shop() -> list[Transaction]:
    files = [DATA / "shop-bin.000001", DATA / "shop-bin.000002"]
    return list(rc.open_binlog(files).transactions())


def changes(made: Transformer) -> list[rc.Change]:
    return [change for one in shop() for change in made.transaction(one).changes]


def test_each_rule() -> None:
    """Constants, pieces, replaced parts and tokens, also in the image before."""
    made = Transformer(
        read_transforms(
            [
                {
                    "tables": ["SHOP.customers"],
                    "keep": ["id", "joined", "country"],
                    "mask": {"name": "somebody", "born": ""},
                    "replace": {"email": ["[^@]+@", "x@"]},
                    "rename": {"id": "customer"},
                }
            ]
        )
    )
    for one in changes(made):
        if one.table != "customers":
            continue
        for row in (one.before, one.after):
            if row is None:
                continue
            assert row.columns == ("customer", "name", "email", "country", "born", "joined")
            assert (row["name"], row["born"]) == ("somebody", None)
            assert row["email"] is None or row["email"].startswith("x@")


def test_tokens_keep_the_form_and_tell_equal_texts() -> None:
    plain = {one.after["email"] for one in _customers(transformer(keep=["*"])) if one.after}
    made = transformer(keep=["*"], tokenise=["email"], key=KEY)
    tokens = [one.after["email"] for one in _customers(made) if one.after]
    assert len(set(tokens)) == len(plain)
    for token in tokens:
        if token is not None:
            assert "@" in token
            assert token not in plain
    assert tokens == [one.after["email"] for one in _customers(made) if one.after]


def _customers(made: Transformer) -> list[rc.Change]:
    return [one for one in changes(made) if one.table == "customers"]


def test_rows_are_chosen_as_they_come_and_go() -> None:
    """Of an update that moves a row over the border there is an insert or a delete, with the row's own index."""
    made = Transformer(read_transforms([{"tables": ["shop.orders"], "where": "state = 'paid'"}]))
    given: dict[Any, Any] = {}
    wanted: dict[Any, Any] = {}
    seen = set()
    for one in shop():
        for change in one.changes:
            if change.table == "orders":
                _apply(wanted, change)
        for change in made.transaction(one).changes:
            if change.table == "orders":
                place = (change.file, change.offset, change.row_index)
                assert place not in seen
                seen.add(place)
                _apply(given, change)
    assert given == {key: row for key, row in wanted.items() if row["state"] == "paid"}


def _apply(rows: dict[Any, Any], change: rc.Change) -> None:
    if change.before is not None:
        assert rows.pop(change.before["id"]) == change.before
    if change.after is not None:
        assert change.after["id"] not in rows
        rows[change.after["id"]] = change.after


def test_definitions_fit_row_images() -> None:
    """Both are made of the same rules: a mirror compares them."""
    made = transformer(
        keep=["id", "sku", "placed", "total"],
        hash=["email", "customer_id"],
        truncate={"name": 3, "title": 5},
        replace={"note": ["a", "bb"]},
        mask={"state": "", "tier": ""},
        key=KEY,
    )
    models = {}
    for transaction in shop():
        shown = made.transaction(transaction)
        for change in shown.schema_changes:
            if change.kind == "create_table":
                assert change.after is not None
                assert change.statement == WITHHELD
                models[change.table] = change.after
        for rows in shown.rows:
            model = models[rows.shape.table]
            assert [column_model(one).kind for one in rows.shape.columns] == [
                column.kind for column in model.columns
            ]
            shape = shape_of(model, ServerFlavor.MYSQL)
            assert shape.column_names == rows.shape.column_names
            for one, other in zip(shape.columns, rows.shape.columns, strict=True):
                assert one.type_code == other.type_code
                assert charset_of_id(one.collation_id) == charset_of_id(other.collation_id)


def test_rows_of_copies_are_those_of_images() -> None:
    """A first copy has rows and no images: the same rules, the same values."""
    keys = {
        "tables": ["shop.*"],
        "keep": ["id", "country"],
        "mask": {"name": "-", "born": "-"},
        "hash": ["email", "tier", "joined"],
        "where": "country != 'DE'",
        "key": KEY,
    }
    transforms = read_transforms([keys])
    made = Transformer(transforms)
    plan = TablePlan.of(transforms, "shop", "customers")
    assert plan is not None
    compared = 0
    model = None
    for transaction in shop():
        for change in transaction.schema_changes:
            if (change.kind, change.table) == ("create_table", "customers"):
                model = change.after
        if any(one.kind == "alter_table" for one in transaction.schema_changes):
            break  # customers is altered
        if transaction.rows and transaction.rows[0].shape.table == "customers":
            assert model is not None
            rows = [one.after for one in transaction.changes if one.kind == "insert"]
            images = [
                one.after for one in made.transaction(transaction).changes if one.kind == "insert"
            ]
            assert plan.rows(model, [row for row in rows if row is not None]) == images
            compared += len(images)
    assert compared > 3


def test_a_new_column_is_withheld() -> None:
    """Also where a statement renames one that was kept."""
    plan = TablePlan.of(
        read_transforms([{"tables": ["shop.*"], "keep": ["id", "n*"]}]), "shop", "t"
    )
    assert plan is not None
    assert plan.withheld(["id", "name", "Ssn"]) == ["Ssn"]


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ([{"tables": ["shop.t"], "mask": {"a": "x"}}], "keep: missing"),
        ([{"tables": [], "keep": ["a"]}], "tables: missing"),
        ([{"tables": ["shop.t"], "keep": ["a"], "hash": ["b"], "key": "short"}], "key: hash needs"),
        ([{"tables": ["shop.t"], "keep": ["a"], "replace": {"b": ["(", ""]}}], "replace: b"),
        ([{"tables": ["shop.t"], "keep": ["a"], "replace": {"b": ["x", "\\2"]}}], "replace: b"),
        ([{"tables": ["shop.t"], "keep": ["a"], "truncate": {"b": -1}}], "truncate: b"),
        ([{"tables": ["shop.t"], "colums": ["a"]}], "colums: not known"),
        ([{"tables": ["shop.t"], "where": "a = "}], "where"),
        ([{"tables": ["shop.t"], "route": "x"}], "route: it must be database.table"),
        ([{"tables": ["shop.t"], "route": "{shard}.t"}], "route: {shard}"),
        ([{"tables": ["nodot"]}], "no dot"),
    ],
)
def test_wrong_declarations_are_refused(tables: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(ConfigError, match="(?s).*" + text.replace("{", r"\{")):
        read_transforms(tables)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"keep": ["*"], "mask": {"id": "0"}}, "part of the primary key"),
        ({"keep": ["*"], "truncate": {"born": 3}}, "text column"),
        ({"keep": [], "drop": ["nothing"]}, "no column of it is left"),
        ({"keep": ["*"], "drop": ["no_such"]}, "there is no column no_such"),
        ({"keep": ["*"], "drop": ["email"], "mask": {"e*": ""}}, "has two rules"),
        ({"rename": {"name": "EMAIL"}}, "one name"),
        ({"where": "nowhere = 1"}, "no column 'nowhere'"),
        ({"where": "contry = 'fr' OR id > 0"}, "no column 'contry'; did you mean country?"),
    ],
)
def test_what_does_not_fit_a_table_stops(keys: dict[str, Any], text: str) -> None:
    made = Transformer(read_transforms([{"tables": ["shop.customers"], **keys}]))
    with pytest.raises(ConfigError, match=text):
        changes(made)


def test_two_tables_of_one_name_stop() -> None:
    made = transformer(route="all.rows")
    with pytest.raises(ConfigError, match=r"would both be all\.rows"):
        changes(made)


def test_a_name_under_which_hidden_columns_would_be_seen_stops() -> None:
    made = Transformer(read_transforms([{"tables": ["shop.customers"], "keep": ["id"]}]))
    one = next(
        change
        for transaction in shop()
        for change in transaction.schema_changes
        if (change.kind, change.table) == ("create_table", "customers")
    )
    assert one.after is not None
    renamed = rc.SchemaChange(
        "rename_table", "shop", "customers", one.after, one.after.renamed("shop", "c2"), True, "x"
    )
    transaction = shop()[0].__replace__(schema_changes=(renamed,))
    with pytest.raises(ConfigError, match="add the name to its tables"):
        made.transaction(transaction)


def test_a_transaction_with_other_rows_is_otherwise_the_same() -> None:
    for one in shop():
        other = one.with_rows(one.rows)
        assert other == one
        assert other.position == one.position
        assert one.with_rows(()).rows == ()
        assert one.with_rows(()) == one.__replace__(rows=())


def test_a_token_has_the_form_of_its_text() -> None:
    make = tokenise_rule(KEY.encode()).make
    assert make is not None
    text = "ABYZ-abyz 0189 +/äλ"
    for repeated in (text, text * 9):
        token = make(repeated)
        assert len(token) == len(repeated)
        for old, new in zip(repeated, token, strict=True):
            for letters in (string.ascii_uppercase, string.ascii_lowercase, string.digits):
                assert (old in letters) == (new in letters) or (ord(old) > 127 and new == "x")
            if old in "- +/":
                assert new == old
        assert token != repeated


def test_a_masked_column_shows_neither_default_nor_comment() -> None:
    """They could reveal what is hidden."""
    model = ColumnModel("price", "int", nullable=False, default="4711", comment="was 4711")
    masked = ruled_model(model, mask_rule("x"), "cost")
    assert (masked.name, masked.nullable) == ("cost", True)
    assert (masked.default, masked.comment) == (None, "")
    shape = shape_of(TableModel("shop", "t", (model,)), ServerFlavor.MYSQL).columns[0]
    masked_shape = ruled_shape(replace(shape, definition=model), mask_rule("x"), "cost")
    assert (masked_shape.name, masked_shape.nullable, masked_shape.definition) == (
        "cost",
        True,
        None,
    )
