"""Plans of copies that are kept, conditions of groups, and defaults of a configuration."""

from __future__ import annotations

import json

import pytest

from replica_client.errors import ConfigError
from replica_client.lake.config import load_config
from replica_client.lake.copies import CopyPlan
from replica_client.lake.merge import _behind
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.verify.row_groups import Grouping, has_integer_key, range_of
from replica_client.schema.model import ColumnModel, TableModel
from tests.unit.schema.tables import history_of


def table(text: str = "create table t (id int primary key, v int)") -> TableModel:
    model = history_of(text).table(("d", "t"))
    assert isinstance(model, TableModel)
    return model


def test_a_plan_is_that_which_was_saved(tmp_path):
    plan = CopyPlan(table(), [["1", None], [None, "5"]])
    plan.save(tmp_path / "manifests")
    assert CopyPlan.load(tmp_path / "manifests", "d", "t") == plan
    assert CopyPlan.load(tmp_path, "d", "t") is None
    (tmp_path / "manifests" / "plan.json").write_text(json.dumps({"parts": []}))
    assert CopyPlan.load(tmp_path / "manifests", "d", "t") is None


def test_the_condition_of_groups():
    size = 100
    names = [" BETWEEN ".join(("`id`", "{} AND {}".format(*range_of(g, size)))) for g in (-1, 3)]
    assert Grouping(table(), size).sql_where([-1, 3]) == " OR ".join(names)
    by_checksum = Grouping(table("create table t (c varchar(9) primary key)"))
    assert by_checksum.sql_where([4, 7]) == f"{by_checksum.sql_group()} IN (4, 7)"


def test_only_a_url_is_a_live_source():
    assert SourceOptions.parse({"url": "mysql://repl:x@db1/"}).live
    assert not SourceOptions.parse({"path": "/a.000001"}).live


@pytest.mark.parametrize(
    ("more", "current"),
    [
        ("", True),
        ('columns = ["shop.orders.id"]', False),
        ('columns = ["shop.orders.id"]\n[lake]\ncurrent = false', False),
        ("[lake]\ncurrent = false", False),
    ],
)
def test_current_tables_are_the_default_where_all_columns_are_read(tmp_path, more, current):
    file = tmp_path / "shop.toml"
    file.write_text(f'[pipeline]\noutput = "lake"\n[source]\npath = "a.000001"\n{more}\n')
    assert load_config(file).lake.current == current


def test_current_tables_need_all_columns(tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text(
        '[pipeline]\noutput = "lake"\n[source]\npath = "a.000001"\ncolumns = ["shop.orders.id"]\n'
        "[lake]\ncurrent = true\n"
    )
    with pytest.raises(ConfigError, match="current tables need all columns"):
        load_config(file)


def test_a_snapshot_is_of_a_live_source(tmp_path):
    file = tmp_path / "shop.toml"
    text = '[pipeline]\noutput = "lake"\n[source]\nstart = "snapshot"\n'
    file.write_text(text + 'url = "mysql://repl:x@db1/"\n')
    config = load_config(file)
    assert config.lake.copies
    assert config.source["startingPosition"] == "latest"
    file.write_text(text + 'path = "a.000001"\n')
    with pytest.raises(ConfigError, match="needs a live source"):
        load_config(file)


@pytest.mark.parametrize(
    ("kinds", "key", "expected"),
    [
        (("int", "varchar"), ("a",), True),
        (("bigint", "varchar"), ("a", "b"), True),
        (("varchar", "int"), ("a",), False),
        (("varchar", "int"), ("b", "a"), True),
        (("decimal", "int"), ("a",), False),
        (("int", "int"), (), False),
    ],
)
def test_whole_numbers_at_the_start_of_a_key_make_ranges(kinds, key, expected):
    columns = tuple(ColumnModel(name, kind) for name, kind in zip("ab", kinds, strict=True))
    table = TableModel("d", "t", columns, tuple((name, 0) for name in key))
    assert has_integer_key(table) is expected


@pytest.mark.parametrize(
    ("key", "behind"),
    [
        (5, 6),
        (-1, 0),
        ("abc", "abc\0"),
        ("", "\0"),
        ("ж", None),
        ("2026-11-24", None),
        ("2026-11-2", "2026-11-2\0"),
        (True, None),
        (None, None),
    ],
)
def test_the_first_key_behind_one(key, behind):
    assert _behind(key) == behind
