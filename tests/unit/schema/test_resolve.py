"""Table maps and definitions, made one or found to differ."""

from __future__ import annotations

import pytest

from replica_client.errors import SchemaMismatchError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.schema.resolve import (
    find_mismatch,
    lacks_charset,
    resolve,
    resolve_if_fitting,
    with_hash_columns,
)
from replica_client.schema.shape import ColumnShape, TableShape
from tests.unit.schema.tables import MARIADB, MYSQL, history_of

T = ColumnShape


def model(sql: str, context=MYSQL) -> TableModel:
    found = history_of(f"CREATE TABLE t ({sql})", context=context).table(("d", "t"))
    assert isinstance(found, TableModel)
    return found


def shape(*columns: ColumnShape) -> TableShape:
    return TableShape("d", "t", columns)


def col(code: int, **members) -> ColumnShape:
    return ColumnShape(members.pop("name", "col_1"), code, **{"resolved": False, **members})


def test_what_the_binlog_leaves_out_is_filled_in() -> None:
    found = resolve(
        shape(
            col(3, nullable=False),
            col(247, length=1, collation_id=8),
            col(15, length=40),
            col(252, metadata=2),
            col(1),
        ),
        model(
            "a INT UNSIGNED PRIMARY KEY, e ENUM('x','y') CHARSET latin1, v VARCHAR(10), b BLOB, i BOOL INVISIBLE"
        ),
    )
    assert found.names_resolved
    a, e, v, b, i = found.columns
    assert (a.name, a.unsigned, a.primary_key_index) == ("a", True, 0)
    assert (e.labels, e.collation_id) == (("x", "y"), 8)
    assert (v.collation_id, b.collation_id) == (45, 63)
    assert (v.unsigned, i.unsigned, i.visible) == (None, False, False)


def test_logical_types_of_mariadb() -> None:
    found = resolve(
        shape(col(254, length=16), col(254, length=4), col(15, length=12)),
        model("u UUID, i INET4, v VECTOR(3)", MARIADB),
    )
    assert [column.logical_type for column in found.columns] == ["uuid", "inet4", "vector"]


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("a INT, b INT", col(3)),
        ("a INT", col(8)),
        ("a INT NOT NULL", col(3)),
        ("a INT", col(3, nullable=False)),
        ("a INT", col(3, unsigned=True)),
        ("a INT UNSIGNED", col(3, unsigned=False)),
        ("a INT", col(3, name="b", resolved=True)),
        ("a VARCHAR(10)", col(15, length=10)),
        ("a VARCHAR(10) CHARSET latin1", col(15, length=10, collation_id=33)),
        ("a CHAR(10)", col(15, length=40)),
        ("a TEXT", col(252, metadata=3)),
        ("a DECIMAL(10,2)", col(246, length=10, scale=3)),
        ("a DATETIME(3)", col(18, metadata=2)),
        ("a BIT(9)", col(16, length=8)),
        ("a ENUM('x')", col(247, length=1, labels=("y",))),
        ("a ENUM('x')", col(247, length=2)),
        ("a ENUM('x')", col(248, length=1)),
        ("a BINARY(16)", col(254, length=15)),
        ("a JSON", col(252, metadata=4)),
    ],
)
def test_what_differs_is_refused_with_both_shapes(sql: str, column: ColumnShape) -> None:
    with pytest.raises(SchemaMismatchError, match=r"d\.t: .*the binlog has .*the definition is"):
        resolve(shape(column), model(sql))


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("a INT", col(3)),
        ("A INT", col(3, name="a", resolved=True)),
        ("a TIMESTAMP", col(17, nullable=False)),
        ("a TIMESTAMP", col(7)),
        ("a TIME(4)", col(19, metadata=4)),
        ("a DATE", col(10)),
        ("a DATE", col(14)),
        ("a SET('x','y','z') CHARSET latin1", col(248, length=1)),
        ("a VARCHAR(10) CHARSET utf8", col(15, length=30)),
        ("a LONGTEXT", col(252, metadata=4)),
        ("a GEOMETRY", col(255, metadata=4)),
        ("a VECTOR(4)", col(242, metadata=4)),
        ("a VARBINARY(7)", col(15, length=7)),
    ],
)
def test_what_fits(sql: str, column: ColumnShape) -> None:
    assert find_mismatch(shape(column), model(sql)) == ""


def test_unknown_character_sets() -> None:
    unknown = TableModel(
        "d", "t", (model("a VARCHAR(10)").columns[0].__class__("a", "varchar", 10),)
    )
    for width in (1, 2, 3, 4):
        assert find_mismatch(shape(col(15, length=10 * width)), unknown) == ""
    assert find_mismatch(shape(col(15, length=50)), unknown)
    assert lacks_charset(shape(col(15, length=10)), unknown)
    assert not lacks_charset(shape(col(15, length=10, collation_id=8)), unknown)
    assert not lacks_charset(shape(col(15, length=10)), unknown.with_charset("latin1"))


def test_hash_columns_of_mariadb() -> None:
    text = model("a INT, b TEXT, UNIQUE (b)", MARIADB)
    seen = shape(col(3), col(252, metadata=2), col(8))
    assert find_mismatch(seen, with_hash_columns(seen, text, ServerFlavor.MYSQL))
    found = resolve(seen, with_hash_columns(seen, text, ServerFlavor.MARIADB))
    assert found.column_names == ("a", "b", "DB_ROW_HASH_1")
    assert not found.columns[2].visible
    no_text = model("a INT", MARIADB)
    assert with_hash_columns(shape(col(3), col(8)), no_text, ServerFlavor.MARIADB) is no_text
    other = shape(col(3), col(252, metadata=2), col(3))
    assert with_hash_columns(other, text, ServerFlavor.MARIADB) is text


ALIKE = (
    "a INT PRIMARY KEY, b VARCHAR(30)",
    "b INT, a VARCHAR(30), PRIMARY KEY (a, b)",
    "a INT, b VARCHAR(30)",
    "a INT, b VARCHAR(31)",
    "a INT NOT NULL, b VARCHAR(30)",
    "a INT",
    "x INT UNSIGNED, b VARCHAR(30) INVISIBLE",
)


@pytest.mark.parametrize("named", [False, True])
def test_alike_tables_are_resolved_as_each_alone(named: bool) -> None:
    """Shapes and definitions that are shared, in every pair and twice: as resolve(), or None where it raises."""
    models = [model(sql) for sql in ALIKE]
    shapes = [
        shape(
            col(3, nullable=nullable, name="a", resolved=named),
            col(15, length=length, name="b", resolved=named),
        )
        for nullable in (False, True)
        for length in (120, 124)
    ]
    for _ in range(2):
        for one in shapes:
            for known in (*models, *(m.renamed("e", "u") for m in models)):
                try:
                    expected = resolve(one, known)
                except SchemaMismatchError:
                    expected = None
                other = TableShape("e", "u", one.columns)
                assert resolve_if_fitting(one, known) == expected
                found = resolve_if_fitting(other, known)
                assert (found and found.columns) == (expected and expected.columns)
                assert found is None or (found.database, found.table) == ("e", "u")
    assert any(resolve_if_fitting(one, known) for one in shapes for known in models)


def test_labels_whose_character_set_only_the_binlog_tells() -> None:
    """A server keeps ? for what a column's character set lacks; where that is not known, ASCII alone is certain."""
    history = SchemaHistory()
    history.run("CREATE TABLE d.t (e ENUM('é','x','ж'))", MYSQL, "b.1", 4)
    model = history.table(("d", "t"))
    assert isinstance(model, TableModel) and model.needs_charset
    found = {}
    for name, collation in (("latin1", 8), ("utf8mb4", 45), ("not told", None)):
        column = resolve(shape(col(247, length=1, collation_id=collation)), model).columns[0]
        found[name] = (column.labels, column.unknown_labels)
    assert found == {
        "latin1": (("é", "x", "?"), ()),
        "utf8mb4": (("é", "x", "ж"), ()),
        "not told": (("é", "x", "ж"), (1, 3)),
    }
