"""Foreign keys that change rows without a word in the binlog, and columns that take no value."""

from __future__ import annotations

import time

import pytest

from replica_client.schema.ddl.references import cascading_references
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import CreateTable
from tests.unit.schema.tables import MYSQL


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("REFERENCES p (a) ON DELETE CASCADE", [("d", "p")]),
        ("REFERENCES `x`.`p``q` (a, b) MATCH FULL ON UPDATE SET NULL", [("x", "p`q")]),
        ("REFERENCES p (a) ON DELETE NO ACTION ON UPDATE CASCADE", [("d", "p")]),
        ("REFERENCES p (a) ON UPDATE SET DEFAULT ON DELETE RESTRICT", [("d", "p")]),
        ("REFERENCES p (a) ON DELETE NO ACTION", []),
        ("REFERENCES p (a) ON DELETE RESTRICT, b INT COMMENT 'ON DELETE CASCADE'", []),
        ("REFERENCES p (a), FOREIGN KEY (a) REFERENCES q (a) ON DELETE CASCADE", [("d", "q")]),
        ("COMMENT 'REFERENCES p (a) ON DELETE CASCADE'", []),
    ],
)
def test_what_cascades(clause: str, found: list[tuple[str, str]]) -> None:
    for head in ("CREATE TABLE t (a INT ", "ALTER TABLE t ADD (a INT "):
        assert cascading_references(f"{head}{clause})", MYSQL, "d") == found


def test_which_columns_are_generated() -> None:
    text = (
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a DECIMAL(10, 2) DEFAULT 1, b INT AS (a + 1), "
        "`c``d` VARCHAR(9) CHARACTER SET latin1 GENERATED ALWAYS AS (concat('AS (', a)) STORED, e INT COMMENT 'AS (1)')"
    )
    made = read_statement(text, MYSQL)
    assert isinstance(made, CreateTable)
    assert [column.name for column in made.columns if column.generated] == ["b", "c`d"]


def test_long_statements_are_read_in_linear_time() -> None:
    began = time.process_time()
    for text in ("a " * 100_000, "a AS " * 50_000, "REFERENCES p (a) " * 20_000):
        cascading_references(f"CREATE TABLE t ({text})", MYSQL, "d")
    assert time.process_time() - began < 20  # below one on an idle machine
