"""Random statements that change rows."""

from __future__ import annotations

import random

from tests.integration.ddl_generator import Col, q
from tests.integration.ddl_histories import literal
from tests.integration.mix_sessions import ENCODINGS, Table
from tests.integration.mix_tables import MixedDdl

_TEXTS = ("a", "b", "ab", "äöü é", "жук", "表能ソ", "日本", "", "x%y", "🐟", "w" * 30, "it''s")
_KEYS_OF_SERVER = ("my_row_id", "s", "e")


def value(rng: random.Random, column: Col, charset: str) -> str:
    """A value of a column, as SQL of a session in a character set; often the same as another."""
    if rng.random() < 0.5:
        if column.base in ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"):
            return str(rng.randrange(12))
        if column.charset is not None and column.base in ("char", "varchar", "text", "mediumtext"):
            return f"'{rng.choice(_TEXTS)}'"
    text = literal(rng, column)
    return text.encode(ENCODINGS[charset], "replace").decode(ENCODINGS[charset])


class RowStatements:
    """Makes statements on the tables of a generator.

    Args:
        ddl: has the tables.
        rng: chooses.
        says_all: whether REPLACE names all columns.
    """

    def __init__(self, ddl: MixedDdl, rng: random.Random, *, says_all: bool = False) -> None:
        self.ddl, self.rng, self.says_all = ddl, rng, says_all

    def make(self, charset: str, table: Table) -> str:
        """A statement that changes rows of a table."""
        rng = self.rng
        path = f"{q(table[0])}.{q(table[1])}"
        columns = [
            c for c in self.ddl.columns(table) if not c.generated and c.name not in _KEYS_OF_SERVER
        ]
        if not columns:
            return f"INSERT INTO {path} VALUES ()"
        kind = rng.random()
        if kind < 0.5:
            return self._insert(charset, path, columns)
        one = rng.choice(columns)
        sets = ", ".join(
            f"{q(c.name)} = {value(rng, c, charset)}"
            for c in rng.sample(columns, min(len(columns), rng.choice((1, 1, 2))))
        )
        where = rng.choice(
            (
                "",
                f" WHERE {q(one.name)} = {value(rng, one, charset)}",
                f" WHERE {q(one.name)} >= {value(rng, one, charset)}",
                f" WHERE {q(one.name)} IS NOT NULL ORDER BY 1 LIMIT {rng.randint(1, 3)}",
            )
        )
        if kind < 0.8:
            return f"UPDATE {rng.choice(('', 'IGNORE '))}{path} SET {sets}{where.replace('BY 1', f'BY {q(one.name)}')}"
        if kind < 0.94:
            return f"DELETE FROM {path}{where.replace('BY 1', f'BY {q(one.name)}')}"
        other = rng.choice(self.ddl.tables())
        return (
            f"INSERT IGNORE INTO {path} ({q(one.name)}) SELECT {value(rng, one, charset)}"
            f" FROM {q(other[0])}.{q(other[1])} LIMIT 20"
        )

    def _insert(self, charset: str, path: str, columns: list[Col]) -> str:
        rng = self.rng
        word = rng.choice(
            ("INSERT INTO", "INSERT IGNORE INTO", "INSERT IGNORE INTO", "REPLACE INTO")
        )
        chosen = [c for c in columns if rng.random() < 0.9 or not c.nullable] or columns[:1]
        if self.says_all and word == "REPLACE INTO":
            chosen = columns
        names = ", ".join(q(c.name) for c in chosen)
        count = rng.choice((1, 1, 2, 3, 8, 40))
        rows = ", ".join(
            "(" + ", ".join(value(rng, c, charset) for c in chosen) + ")" for _ in range(count)
        )
        sql = f"{word} {path} ({names}) VALUES {rows}"
        if word.startswith("INSERT") and rng.random() < 0.15:
            one = rng.choice(chosen)
            sql += f" ON DUPLICATE KEY UPDATE {q(one.name)} = {value(rng, one, charset)}"
        return sql
