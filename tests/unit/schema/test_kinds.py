"""Every column kind in every target, and the recipe of CONTRIBUTING for a new one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import replica_client
from replica_client.compat.pymysqlreplication.optional_metadata import OptionalMetaData
from replica_client.errors import SchemaError
from replica_client.lake.lake_columns import lake_column
from replica_client.lake.verify.texts import lake_text, sql_text
from replica_client.protocol.binlog.events.table_map import DefaultCharset, TableMetadata
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.column_types import CHARACTER_TYPES, TYPE_FACTS, ColumnType
from replica_client.rows.arrow_types import arrow_column, arrow_type
from replica_client.schema.kinds import (
    KINDS,
    LIMITS,
    TARGETS,
    ColumnKind,
    kind_name,
    rules,
    target_type,
)
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import ColumnModel, TableModel, column_type
from replica_client.schema.shape import ColumnShape, TableShape, kind_of
from replica_client.sinks.column_models import column_model, sql_type
from replica_client.sinks.formats.avro import avro_reader, avro_schema
from replica_client.sinks.formats.canal import canal_column
from replica_client.sinks.formats.debezium_connect import _jdbc_type, column_schema
from replica_client.sinks.formats.debezium_values import ValueModes, debezium_writer
from replica_client.sinks.formats.maxwell import maxwell_writer
from replica_client.sinks.mirror import clickhouse_client, duckdb_rows, postgres_objects
from replica_client.sinks.mirror.mysql_rows import mysql_encoder
from replica_client.sinks.mirror.stored_values import stored_encoder
from replica_client.stream.snapshot.column_selects import selected

ROOT = Path(replica_client.__file__).parents[1]


def _column(kind: str) -> ColumnModel:
    labels = ("a", "b") if kind in ("enum", "set") else None
    length = KINDS[kind].default or (10 if KINDS[kind].unit else None)
    charset = "utf8mb4" if KINDS[kind].form in ("string", "enum", "set") else None
    return ColumnModel("c", kind, length, charset=charset, labels=labels)


def _shape(model: ColumnModel, flavor: ServerFlavor) -> ColumnShape:
    return shape_of(TableModel("d", "t", (model,)), flavor).columns[0]


@pytest.mark.parametrize("kind", KINDS)
def test_no_target_forgets_a_kind(kind: str) -> None:
    model = _column(kind)
    for flavor in ServerFlavor:
        shape = _shape(model, flavor)
        assert arrow_column(shape).type is not None
        assert kind_name(shape.type_code, binary=True, length=0) in KINDS
        schema = column_schema(shape, ValueModes())
        assert avro_schema(schema)
        avro_reader(schema)
        assert callable(debezium_writer(shape, ValueModes()))
        assert callable(maxwell_writer(shape))
        assert canal_column(shape).null_code == int(target_type("canal", kind_of(shape)))
    assert lake_column(model).type is not None
    assert sql_text(model)
    assert callable(lake_text(model))
    assert sql_type(model).startswith(kind)
    assert _jdbc_type(model)
    assert selected(model).expression
    assert postgres_objects.shown(model, "c")
    assert postgres_objects.cast_type(model)
    assert duckdb_rows.shown(model, "c")
    assert duckdb_rows.arrow_rows([model], [[None]]).num_rows == 1
    assert clickhouse_client.shown(model, "c")
    assert clickhouse_client.texts(model, [None]) == ["\\N"]
    assert clickhouse_client.column_list(TableModel("d", "t", (model,)))
    stored_encoder(model)
    mysql_encoder(model)
    for target in TARGETS:
        if target not in ("json", "maxwell"):
            assert "{" not in column_type(target, model)
    for target in ("arrow", "lake"):
        if kind != "decimal":
            assert arrow_type(column_type(target, model)) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_optional_targets(kind: str) -> None:
    model = _column(kind)
    tables = pytest.importorskip("replica_client.compat.dlt_tables")
    tap = pytest.importorskip("replica_client.compat.singer_tap")
    assert tables._column(model)["data_type"]
    assert tap._schema(model, nullable=False)["type"]


@pytest.mark.parametrize("kind", KINDS)
def test_spark_has_every_kind(kind: str) -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.types import StringType

    from replica_client.lake.spark.source.shapes import spark_type
    from replica_client.protocol.binlog.event import DecodeOptions

    for flavor in ServerFlavor:
        for model in (_column(kind), ColumnModel("c", kind, 40, unsigned=True)):
            spark_type(_shape(model, flavor), DecodeOptions(), StringType())


@pytest.mark.parametrize("kind", KINDS.values())
def test_a_table_map_shows_the_kind(kind: ColumnKind) -> None:
    for code in kind.codes:
        length = LIMITS.get(kind.name, 0)
        found = kind_name(code, binary=kind.form == "bytes", length=length)
        assert KINDS[found].form == kind.form
        assert found == kind.name or kind.form == "spatial"


def test_every_type_code_has_a_row() -> None:
    assert set(TYPE_FACTS) == set(ColumnType)
    read = {code for kind in KINDS.values() for code in kind.codes}
    unread = set(ColumnType) - read
    assert {code.name.removeprefix("MYSQL_TYPE_") for code in unread} == {
        *("NULL", "BOOL", "INVALID")
    }
    assert not CHARACTER_TYPES & unread


def test_a_hole_is_an_error_at_import() -> None:
    with pytest.raises(LookupError, match=r"shop: no rule for \['vector'\]"):
        rules(
            "shop",
            {
                "integer year bit real decimal date time datetime timestamp string bytes": 1,
                "enum set json spatial address": 2,
            },
        )
    with pytest.raises(LookupError, match="no kind"):
        rules("shop", dict.fromkeys((*KINDS, "vectr"), 1))


def test_a_kind_goes_before_its_form() -> None:
    given = dict.fromkeys([str(kind.form) for kind in KINDS.values()], 1)
    found = rules("shop", given | {"bigint": 2})
    assert (found["int"], found["bigint"]) == (1, 2)


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(SchemaError, match="the column type 'cube' is not known"):
        column_type("postgres", ColumnModel("c", "cube"))


@pytest.mark.parametrize("code", [ColumnType.MYSQL_TYPE_VAR_STRING, ColumnType.MYSQL_TYPE_VARCHAR])
def test_a_varchar_of_an_old_table_fits_its_definition(code: ColumnType) -> None:
    from replica_client.schema.resolve import misfit

    shape = ColumnShape("c", code, metadata=40, length=40, collation_id=45)
    assert misfit(shape, ColumnModel("c", "varchar", 10, charset="utf8mb4")) == ""
    assert column_model(shape).kind == "varchar"


_PATCHES = {
    "protocol/constants/column_types.py": (
        (
            "    MYSQL_TYPE_VECTOR = 242\n",
            "    MYSQL_TYPE_VECTOR = 242\n    MYSQL_TYPE_EMBEDDING = 239\n",
        ),
        (
            '    _T.MYSQL_TYPE_VECTOR: TypeFacts("prefixed", 1),\n',
            '    _T.MYSQL_TYPE_VECTOR: TypeFacts("prefixed", 1),\n'
            '    _T.MYSQL_TYPE_EMBEDDING: TypeFacts("prefixed", 1),\n',
        ),
    ),
    "schema/kinds.py": (
        (
            '        ColumnKind(\n            "vector",\n',
            '        ColumnKind(\n            "embedding", "vector", (_T.MYSQL_TYPE_EMBEDDING,), ("EMBEDDING",),\n'
            '            size=4, unit="dimensions", default=8,\n        ),\n'
            '        ColumnKind(\n            "vector",\n',
        ),
    ),
}
"""The recipe of CONTRIBUTING, "Add a column type", for a type EMBEDDING."""

_USE = """
import struct
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT
from replica_client.cli.annotation.rows_body import column_size
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.lake.lake_columns import lake_column
from replica_client.rows.arrow_types import arrow_column
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_values import value_to_json
from replica_client.schema.catalog import Catalog
from replica_client.schema.ddl.lexer import Cursor, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.type_clause import read_type
from replica_client.schema.resolve import misfit
from replica_client.schema.model import ColumnModel, column_type
from replica_client.schema.shape import TableShape
from replica_client.sinks.column_models import column_model, sql_type
from replica_client.sinks.formats.canal import canal_column
from replica_client.sinks.formats.debezium_connect import column_schema
from replica_client.sinks.formats.debezium_values import ValueModes, debezium_writer
from replica_client.sinks.formats.maxwell import maxwell_writer
from replica_client.sinks.mirror.stored_values import stored_encoder
from replica_client.stream.snapshot.column_selects import selected

context = StatementContext()
found = read_type(Cursor(tokenize("EMBEDDING(3)", context)), context)
model = ColumnModel("c", found.kind, found.length)
assert sql_type(model) == "embedding(3)", sql_type(model)
event = TableMapEvent(1, 1, "d", "t", bytes((239,)), (4,), b"\\x01")
event = TableMapEvent.decode(ByteReader(event.encode()), DEFAULT_CONTEXT)
shape = TableShape.from_table_map(event, ServerFlavor.MYSQL)
column = shape.columns[0]
assert misfit(column, model) == "", misfit(column, model)
assert column_model(column).kind == "embedding"
value = struct.pack("<3f", 1.5, -2, 0.25)
image = len(value).to_bytes(4, "little") + value
assert column_size(image, 239, 4) == 16
((_, row),) = RowImageDecoder(shape).decode_rows("insert", b"\\x01", None, b"\\x00" + image)
assert row[0] == (1.5, -2.0, 0.25)
assert value_to_json(row[0]) == "[1.5, -2.0, 0.25]"
assert str(arrow_column(column).type).startswith("list<"), arrow_column(column)
assert arrow_column(column).convert(row[0]) == [1.5, -2.0, 0.25]
assert lake_column(model).type == arrow_column(column).type
types = {target: column_type(target, model) for target in ("postgres", "duckdb", "clickhouse", "spark", "dlt")}
assert types == {"postgres": "json", "duckdb": "JSON", "clickhouse": "String", "spark": "array<float>", "dlt": "json"}
assert column_schema(column, ValueModes())["name"] == "io.debezium.data.FloatVector"
assert debezium_writer(column, ValueModes())(row[0]) == maxwell_writer(column)(row[0]) == "[1.5, -2.0, 0.25]"
assert canal_column(column).write(row[0]) == (value.decode("latin-1"), 2004)
assert stored_encoder(model)(row[0]) == "[1.5, -2.0, 0.25]"
assert selected(model).convert(value) == row[0]
"""


def test_the_recipe_for_a_column_type(tmp_path: Path) -> None:
    assert len(_PATCHES) <= 3
    package = tmp_path / "replica_client"
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.c")
    shutil.copytree(ROOT / "replica_client", package, ignore=ignored)
    for name, edits in _PATCHES.items():
        text = (package / name).read_text()
        for old, new in edits:
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        (package / name).write_text(text)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "REPLICA_CLIENT_IMPL": "python"}
    ran = subprocess.run(
        [sys.executable, "-c", _USE],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_compressed_columns_are_counted_by_the_compatible_reader() -> None:
    metadata = TableMetadata(default_charset=DefaultCharset(45, ((1, 8),)))
    codes = (ColumnType.MYSQL_TYPE_VARCHAR_COMPRESSED, ColumnType.MYSQL_TYPE_VARCHAR)
    shape = TableShape("d", "t", tuple(ColumnShape(f"c{code}", code) for code in codes))
    found = OptionalMetaData()
    found._fill(metadata, shape)
    assert found.charset_collation_list == [45, 8]
