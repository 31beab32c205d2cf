"""Generated changes of all types that the real Debezium engine takes: statements by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

_WORDS = (
    "a",
    "Zürich",
    "emoji 😀",
    'quote " and \\\\',
    "line\\nbreak",
    "",
    "tab\\there",
    "  lead",
    "日本",
)


def _texts(rng: random.Random, size: int) -> str:
    text = rng.choice(_WORDS)
    return f"'{text}'" if len(text) <= size else "'x'"


def _whole(bits: int, *, unsigned: bool = False) -> tuple[int, int]:
    return (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@dataclass(frozen=True)
class Kind:
    """A column's type, a default that it may have, and whether its values are whole numbers between two."""

    type: str
    default: str = ""
    limits: tuple[int, int] | None = None
    makes: str = ""


KINDS = (
    Kind("TINYINT", "5", _whole(8)),
    Kind("TINYINT(1)", "1", (0, 1)),
    Kind("TINYINT UNSIGNED", "7", _whole(8, unsigned=True)),
    Kind("SMALLINT", "-3", _whole(16)),
    Kind("SMALLINT UNSIGNED", "3", _whole(16, unsigned=True)),
    Kind("MEDIUMINT", "1000", _whole(24)),
    Kind("MEDIUMINT UNSIGNED", "1000", _whole(24, unsigned=True)),
    Kind("INT", "0", _whole(32)),
    Kind("INT UNSIGNED", "9", _whole(32, unsigned=True)),
    Kind("BIGINT", "-9", _whole(64)),
    Kind("BIGINT UNSIGNED", "9", _whole(64, unsigned=True)),
    Kind("DECIMAL(10,2)", "1.25", makes="decimal"),
    Kind("DECIMAL(65,30)", "0", makes="decimal"),
    Kind("DECIMAL(5,0)", "-4", makes="whole"),
    Kind("NUMERIC(6,3)", "1.5", makes="whole"),
    Kind("FLOAT", "1.5", makes="float"),
    Kind("DOUBLE", "2.5", makes="double"),
    Kind("BIT(1)", "b'1'", (0, 1)),
    Kind("BIT(13)", "b'101'", (0, 8191)),
    Kind("BIT(64)", "", _whole(64, unsigned=True)),
    Kind("DATE", "'2020-02-29'", makes="date"),
    Kind("TIME", "'12:34:56'", makes="time"),
    Kind("TIME(3)", "", makes="time"),
    Kind("TIME(6)", "", makes="time"),
    Kind("DATETIME", "CURRENT_TIMESTAMP", makes="datetime"),
    Kind("DATETIME(3)", "'2020-01-01 00:00:00.120'", makes="datetime"),
    Kind("DATETIME(6)", "", makes="datetime"),
    Kind("TIMESTAMP NULL", "CURRENT_TIMESTAMP", makes="timestamp"),
    Kind("TIMESTAMP(3) NULL", "", makes="timestamp"),
    Kind("TIMESTAMP(6) NULL", "", makes="timestamp"),
    Kind("YEAR", "2020", (1901, 2155)),
    Kind("CHAR(10)", "'c'", makes="text"),
    Kind("VARCHAR(40)", "'none'", makes="text"),
    Kind("VARCHAR(20) CHARACTER SET latin1", "", makes="latin"),
    Kind("TEXT", "", makes="text"),
    Kind("LONGTEXT", "", makes="text"),
    Kind("ENUM('small','medium','large')", "'small'", makes="enum"),
    Kind("SET('a','b','c d')", "'a'", makes="set"),
    Kind("JSON", "", makes="json"),
    Kind("BINARY(6)", "", makes="bytes"),
    Kind("VARBINARY(20)", "", makes="bytes"),
    Kind("BLOB", "", makes="bytes"),
    Kind("POINT", "", makes="point"),
    Kind("GEOMETRY", "", makes="geometry"),
    Kind("LINESTRING", "", makes="line"),
    Kind("VECTOR(3)", "", makes="vector"),
    Kind("BOOLEAN", "TRUE", (0, 1)),
    Kind("BOOL NOT NULL", "FALSE", (0, 1)),
    Kind("REAL", "1.25", makes="double"),
    Kind("DOUBLE PRECISION", "-0.5", makes="double"),
    Kind("INT", "0x10", _whole(32)),
    Kind("BIGINT UNSIGNED", "x'ff'", _whole(64, unsigned=True)),
    Kind("VARCHAR(40)", "x'616263'", makes="text"),
    Kind("VARBINARY(20)", "0x00ff", makes="bytes"),
    Kind("BINARY(6)", "x'6162'", makes="bytes"),
)
"""All types; not among them what the engine stops at."""

HEXADECIMAL = {16: (None, 1), 255: (None,), "AP8=": (None,), "abc": ("616263",)}
"""What the hexadecimal defaults mean, 255 also as the bytes of a decimal, and what the engine takes them for."""


def value(kind: Kind, rng: random.Random, *, day_only: bool) -> str:
    """A value as SQL; with ``day_only`` a TIME is one of a day."""
    if rng.random() < 0.15 and "NOT NULL" not in kind.type:
        return "NULL"
    if kind.limits is not None:
        low, high = kind.limits
        return str(rng.choice((low, high, rng.randint(low, high))))
    at = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
    fraction = rng.choice(("", ".1", ".12", ".123", ".123456", ".000001", ".999999"))
    day = f"{rng.randint(1000, 9999):04d}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    now = f"{rng.randint(1971, 2037):04d}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    x, y = rng.randint(-90, 90), rng.random() * 10
    makers = {
        "decimal": lambda: f"{rng.randint(-99999999, 99999999)}.{rng.randint(0, 99):02d}",
        "whole": lambda: str(rng.randint(-999, 999)),
        "float": lambda: rng.choice(("0.1", "-1.5", "3.4028234e38", "1e-30", "16777217")),
        "double": lambda: repr(rng.uniform(-1e10, 1e10) * 10 ** rng.randint(-300, 290)),
        "date": lambda: f"'{day}'",
        "time": lambda: (
            f"'{at}{fraction}'"
            if day_only or rng.random() < 0.7
            else f"'{rng.choice(('-', ''))}{rng.randint(0, 837)}:59:58{fraction}'"
        ),
        "datetime": lambda: f"'{day} {at}{fraction}'" if day < "9999-12" else f"'{now} {at}'",
        "timestamp": lambda: f"'{now} {at}{fraction}'",
        "text": lambda: _texts(rng, 10),
        "latin": lambda: rng.choice(("'café'", "'ÿ'", "''")),
        "enum": lambda: rng.choice(("'small'", "'medium'", "3")),
        "set": lambda: rng.choice(("''", "'a'", "'a,c d'", "7")),
        "json": lambda: _document(rng),
        "bytes": lambda: "x'" + rng.randbytes(rng.randint(0, 6)).hex() + "'",
        "point": lambda: f"ST_GeomFromText('POINT({x} {y})')",
        "geometry": lambda: rng.choice(
            (f"ST_GeomFromText('POINT({x} {y})')", f"ST_GeomFromText('POINT({x} {y})', 4326)",
             "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')")
        ),
        "line": lambda: f"ST_GeomFromText('LINESTRING(0 0,{x} {y})')",
        "vector": lambda: f"TO_VECTOR('[{x},{rng.randint(0, 9)}.5,-3]')",
    }  # fmt: skip
    return makers[kind.makes]()


def _document(rng: random.Random) -> str:
    return rng.choice(
        (
            f"'{{\"a\": {rng.randint(-9, 9**18)}, \"b\": [true, null, \"ü\", 1.5]}}'",
            "'[]'", "'\"text\"'", "'17'", "'true'", "'{\"b\": {\"c\": \"\\\\\"q\\\\\"\"}}'",
        )
    )  # fmt: skip


@dataclass
class _Table:
    name: str
    key: int
    columns: list[tuple[str, Kind]]
    rows: int = 0
    ids: list[int] = field(default_factory=list)


class Changes:
    """Statements of one run.

    Args:
        seed: of the run.
        day_only: whether every TIME is one of a day: beyond it some modes of the engine give null.
    """

    def __init__(self, seed: int, *, day_only: bool = False) -> None:
        self._rng = random.Random(seed)
        self._day_only = day_only
        self._tables: list[_Table] = []
        self._made = self._prepared = 0

    def begin(self) -> Iterator[str]:
        """The tables: one of all types, and one each with a key of two columns, none, and another character set."""
        yield from self._create(list(KINDS), 1)
        for key in (2, 0, 1):
            yield from self._create(self._rng.sample(KINDS, 6), key)

    def step(self) -> Iterator[str]:
        """A transaction, or a statement that changes a table."""
        rng = self._rng
        if rng.random() < 0.02:
            yield from self._definition()
            return
        statements = [self._row() for _ in range(rng.choice((1, 1, 1, 2, 5)))]
        if rng.random() < 0.03:
            self._prepared += 1
            name = f"'x{self._prepared}'"
            yield f"XA START {name}"
            yield from statements
            yield f"XA END {name}"
            yield f"XA PREPARE {name}"
            yield f"XA COMMIT {name}"
            return
        if len(statements) > 1:
            yield "BEGIN"
        yield from statements
        if len(statements) > 1:
            yield "COMMIT"

    def _create(self, kinds: list[Kind], key: int) -> Iterator[str]:
        self._made += 1
        table = _Table(f"t{self._made}", key, [])
        columns = {0: [], 1: ["id INT AUTO_INCREMENT"], 2: ["id INT", "part SMALLINT"]}[key]
        if not key:
            columns = ["id INT"]
        for at, kind in enumerate(kinds):
            table.columns.append((f"c{at}", kind))
            columns.append(f"c{at} {self._defined(kind)}")
        if key:
            columns.append(f"PRIMARY KEY ({'id' if key == 1 else 'id, part'})")
        charset = self._rng.choice(("", " DEFAULT CHARSET=utf8mb4", " COMMENT='it'"))
        self._tables.append(table)
        yield f"CREATE TABLE {table.name} ({', '.join(columns)}){charset}"

    def _defined(self, kind: Kind) -> str:
        text = kind.type
        needed = "NOT NULL" in kind.type  # rows leave columns out
        if kind.default and (needed or self._rng.random() < 0.5):
            text += f" DEFAULT {kind.default}"
        return text + (" COMMENT 'c'" if self._rng.random() < 0.2 else "")

    def _row(self) -> str:
        rng, table = self._rng, self._rng.choice(self._tables)
        chosen = rng.sample(table.columns, rng.randint(1, len(table.columns)))
        if not table.ids or rng.random() < 0.5:
            table.rows += 1
            names = ["id", *(["part"] if table.key == 2 else []), *(name for name, _ in chosen)]
            rows = []
            for _ in range(rng.choice((1, 1, 3))):
                table.rows += 1
                table.ids.append(table.rows)
                head = [str(table.rows), *(["1"] if table.key == 2 else [])]
                values = [value(kind, rng, day_only=self._day_only) for _, kind in chosen]
                rows.append("(" + ", ".join([*head, *values]) + ")")
            return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join(rows)}"
        one = rng.choice(table.ids)
        if rng.random() < 0.4:
            table.ids.remove(one)
            return f"DELETE FROM {table.name} WHERE id = {one}"
        if rng.random() < 0.2:
            table.rows += 1
            table.ids[table.ids.index(one)] = table.rows
            return f"UPDATE {table.name} SET id = {table.rows} WHERE id = {one}"
        given = (f"{name} = {value(kind, rng, day_only=self._day_only)}" for name, kind in chosen)
        return f"UPDATE {table.name} SET {', '.join(given)} WHERE id = {one}"

    def _definition(self) -> Iterator[str]:
        rng = self._rng
        table = rng.choice(self._tables[1:])
        name, kind = rng.choice(table.columns)
        what = rng.randrange(10)
        fresh = f"n{rng.randrange(10**6)}"
        if what == 0 and len(self._tables) < 12:
            yield from self._create(rng.sample(KINDS, 5), rng.choice((0, 1, 2)))
        elif what == 1 and len(self._tables) > 4:
            self._tables.remove(table)
            yield f"DROP TABLE {table.name}"
        elif what == 2:
            new = rng.choice(KINDS)
            table.columns.append((fresh, new))
            where = rng.choice(("", " FIRST", f" AFTER {name}"))
            yield f"ALTER TABLE {table.name} ADD COLUMN {fresh} {self._defined(new)}{where}"
        elif what == 3 and len(table.columns) > 3:
            table.columns.remove((name, kind))
            yield f"ALTER TABLE {table.name} DROP COLUMN {name}"
        elif what == 4:
            table.columns[table.columns.index((name, kind))] = (fresh, kind)
            yield f"ALTER TABLE {table.name} RENAME COLUMN {name} TO {fresh}"
        elif what == 5:
            old, table.name = table.name, fresh
            yield rng.choice(
                (f"RENAME TABLE {old} TO {fresh}", f"ALTER TABLE {old} RENAME TO {fresh}")
            )
        elif what == 6 and kind.default and kind.makes != "timestamp":
            yield f"ALTER TABLE {table.name} MODIFY {name} {kind.type} DEFAULT {kind.default}"
        elif what == 7:
            yield f"CREATE INDEX i{fresh} ON {table.name} (id)"
        elif what == 8:
            table.ids.clear()
            yield f"TRUNCATE TABLE {table.name}"
        else:
            yield f"ALTER TABLE {table.name} COMMENT '{fresh}'"
