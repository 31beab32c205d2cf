"""Whether a column of a table map can be the one of a definition: the reason, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.protocol.constants.column_types import ColumnType
from replica_client.schema.model import ColumnModel
from replica_client.schema.resolve import misfit
from replica_client.schema.shape import ColumnShape

T = ColumnType


def shape(code: int, **more: object) -> ColumnShape:
    return replace(ColumnShape("a", int(code)), **more)


def model(kind: str, **more: object) -> ColumnModel:
    return ColumnModel("a", kind, **more)


INT = shape(T.MYSQL_TYPE_LONG, nullable=True)
TEXT = shape(T.MYSQL_TYPE_VARCHAR, length=40, nullable=True)
FIT = [
    (INT, model("int")),
    (replace(INT, unsigned=True), model("int", unsigned=True)),
    (replace(INT, unsigned=False), model("int")),
    (INT, model("int", unsigned=True)),
    (replace(INT, name="A", resolved=True), model("int")),
    (replace(INT, name="b", resolved=False), model("int")),
    (replace(INT, nullable=False), model("int", nullable=None)),
    (shape(T.MYSQL_TYPE_DATE, nullable=True), model("date")),
    (shape(T.MYSQL_TYPE_NEWDATE, nullable=True), model("date")),
    (TEXT, model("varchar", length=10, charset="utf8mb4")),
    (TEXT, model("varchar", length=40, charset="latin1")),
    (TEXT, model("varchar", length=20)),
    (TEXT, model("varbinary", length=40)),
    (replace(TEXT, collation_id=8), model("varchar", length=40, charset="latin1")),
    (replace(TEXT, collation_id=8, length=10), model("varchar", length=10)),
    (
        replace(TEXT, type_code=int(T.MYSQL_TYPE_VARCHAR_COMPRESSED), length=41),
        model("varchar", length=10, charset="utf8mb4"),
    ),
    (shape(T.MYSQL_TYPE_STRING, length=5, nullable=True), model("binary", length=5)),
    (shape(T.MYSQL_TYPE_STRING, length=16, nullable=True), model("uuid")),
    (shape(T.MYSQL_TYPE_STRING, length=4, nullable=True), model("inet4")),
    (shape(T.MYSQL_TYPE_BLOB, metadata=1, nullable=True), model("tinytext")),
    (shape(T.MYSQL_TYPE_BLOB, metadata=2, nullable=True), model("blob")),
    (shape(T.MYSQL_TYPE_BLOB, metadata=3, nullable=True), model("mediumblob")),
    (shape(T.MYSQL_TYPE_BLOB, metadata=4, nullable=True), model("longtext")),
    (
        shape(T.MYSQL_TYPE_NEWDECIMAL, length=9, scale=2, nullable=True),
        model("decimal", length=9, scale=2),
    ),
    (shape(T.MYSQL_TYPE_DECIMAL, nullable=True), model("decimal", length=9, scale=2)),
    (shape(T.MYSQL_TYPE_BIT, length=9, nullable=True), model("bit", length=9)),
    (shape(T.MYSQL_TYPE_ENUM, length=1, nullable=True), model("enum", labels=("x",) * 255)),
    (shape(T.MYSQL_TYPE_ENUM, length=2, nullable=True), model("enum", labels=("x",) * 256)),
    (shape(T.MYSQL_TYPE_SET, length=1, nullable=True), model("set", labels=("x",) * 8)),
    (shape(T.MYSQL_TYPE_SET, length=2, nullable=True), model("set", labels=("x",) * 9)),
    (shape(T.MYSQL_TYPE_SET, length=4, nullable=True), model("set", labels=("x",) * 32)),
    (shape(T.MYSQL_TYPE_SET, length=8, nullable=True), model("set", labels=("x",) * 33)),
    (shape(T.MYSQL_TYPE_SET, length=3, nullable=True), model("set", labels=("x",) * 24)),
    (shape(T.MYSQL_TYPE_ENUM, length=1, nullable=True, labels=("x", "y")), model("enum")),
    (
        shape(T.MYSQL_TYPE_ENUM, length=1, nullable=True, labels=("é", "y")),
        model("enum", labels=("?", "y"), unknown_labels=(1,)),
    ),
    (shape(T.MYSQL_TYPE_TIME2, metadata=3, nullable=True), model("time", fraction_digits=3)),
    (shape(T.MYSQL_TYPE_TIME, nullable=True), model("time", fraction_digits=0)),
    (shape(T.MYSQL_TYPE_VECTOR, nullable=True), model("vector", length=3)),
    (shape(T.MYSQL_TYPE_VARCHAR, length=12, nullable=True), model("vector", length=3)),
]
MISFIT = [
    (INT, model("bigint"), "type LONG is not bigint"),
    (replace(INT, type_code=199), model("int"), "type 199 is not int"),
    (INT, model("hyperint"), "type LONG is not hyperint"),
    (replace(INT, name="b", resolved=True), model("int"), "name 'b' is not 'a'"),
    (INT, model("int", nullable=False), "it can be NULL"),
    (replace(INT, nullable=False), model("int"), "it cannot be NULL"),
    (replace(INT, unsigned=True), model("int"), "it is unsigned"),
    (replace(INT, unsigned=False), model("int", unsigned=True), "it is signed"),
    (
        shape(T.MYSQL_TYPE_ENUM, length=1, nullable=True, labels=("x", "z")),
        model("enum", labels=("x", "y")),
        "its labels differ",
    ),
    (
        shape(T.MYSQL_TYPE_ENUM, length=1, nullable=True, labels=("é", "z")),
        model("enum", labels=("?", "y"), unknown_labels=(1,)),
        "its labels differ",
    ),
    (
        shape(T.MYSQL_TYPE_ENUM, length=1, nullable=True, labels=("é",)),
        model("enum", labels=("?", "y"), unknown_labels=(1,)),
        "its labels differ",
    ),
    (
        replace(TEXT, collation_id=8),
        model("varchar", length=10, charset="utf8mb4"),
        "its character set is latin1",
    ),
    (TEXT, model("varchar", length=11, charset="utf8mb4"), "size 40 "),
    (TEXT, model("varchar", length=7), "size 40 "),
    (TEXT, model("varbinary", length=10), "size 40 "),
    (shape(T.MYSQL_TYPE_STRING, length=15, nullable=True), model("uuid"), "size 15 "),
    (shape(T.MYSQL_TYPE_BLOB, metadata=2, nullable=True), model("tinyblob"), "(metadata 2) is not that of tinyblob"),
    (
        shape(T.MYSQL_TYPE_NEWDECIMAL, length=9, scale=3, nullable=True),
        model("decimal", length=9, scale=2),
        "size 9 ",
    ),
    (
        shape(T.MYSQL_TYPE_NEWDECIMAL, length=8, scale=2, nullable=True),
        model("decimal", length=9, scale=2),
        "size 8 ",
    ),
    (shape(T.MYSQL_TYPE_BIT, length=8, nullable=True), model("bit", length=9), "size 8 "),
    (shape(T.MYSQL_TYPE_ENUM, length=2, nullable=True), model("enum", labels=("x",) * 255), "size 2 "),
    (shape(T.MYSQL_TYPE_ENUM, length=1, nullable=True), model("enum", labels=("x",) * 256), "size 1 "),
    (shape(T.MYSQL_TYPE_SET, length=5, nullable=True), model("set", labels=("x",) * 40), "size 5 "),
    (shape(T.MYSQL_TYPE_TIME2, metadata=2, nullable=True), model("time", fraction_digits=3), "(metadata 2)"),
    (shape(T.MYSQL_TYPE_VARCHAR, length=3, nullable=True), model("vector", length=3), "size 3 "),
]  # fmt: skip


@pytest.mark.parametrize(("column", "known"), FIT)
def test_columns_that_fit(column: ColumnShape, known: ColumnModel) -> None:
    assert misfit(column, known) == ""


@pytest.mark.parametrize(("column", "known", "reason"), MISFIT)
def test_columns_that_do_not(column: ColumnShape, known: ColumnModel, reason: str) -> None:
    assert reason in misfit(column, known)
