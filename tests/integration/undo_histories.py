"""Random histories of tables on a real server: what undo and redo make of them, against CHECKSUM TABLE."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replica_client.archive.archive import make_question, open_archive
from replica_client.archive.undo import Direction, make_statements
from tests.servers.local import LocalServer

Make = Callable[[random.Random], str]


def _text(rng: random.Random, alphabet: str = "aAbß é'\\\"%;-ü\n") -> str:
    text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(12)))
    return f"_utf8mb4 x'{text.encode().hex()}'"


def _bytes(rng: random.Random) -> str:
    return f"x'{rng.randbytes(rng.randrange(9)).hex()}'"


def _json(rng: random.Random) -> str:
    return rng.choice(
        (
            '\'{"a": 1, "b": [true, null, 1.5]}\'',
            "'[]'",
            "'\"text\"'",
            "JSON_OBJECT('d', CAST(1.50 AS DECIMAL(5,2)), 'n', 18446744073709551615)",
            "JSON_ARRAY(1e100, -0.5, 'ü')",
            "'null'",
        )
    )


# Types, and values for them: edges more often than the rest.
TYPES: list[tuple[str, Make]] = [
    ("INT", lambda rng: str(rng.choice((0, -1, 2**31 - 1, -(2**31), rng.randrange(99))))),
    ("BIGINT UNSIGNED", lambda rng: str(rng.choice((0, 2**64 - 1, rng.randrange(99))))),
    ("TINYINT", lambda rng: str(rng.choice((-128, 127, 0)))),
    ("DECIMAL(12,4)", lambda rng: f"{rng.randrange(-(10**11), 10**11) / 10**4:.4f}"),
    ("FLOAT", lambda rng: repr(rng.choice((0.1, -1.5e30, rng.random())))),
    ("DOUBLE", lambda rng: repr(rng.choice((0.1, 1e-300, rng.random())))),
    ("BIT(11)", lambda rng: str(rng.randrange(2**11))),
    ("DATE", lambda rng: rng.choice(("'0000-00-00'", "'2026-02-00'", "'2026-11-20'"))),
    ("DATETIME(6)", lambda rng: rng.choice(("'0000-00-00'", "'2026-11-20 08:00:00.123456'"))),
    (
        "TIMESTAMP(3) NULL DEFAULT NULL",
        lambda rng: rng.choice(("'0000-00-00'", "'2026-11-20 08:00:00.5'")),
    ),
    ("TIME(2)", lambda rng: rng.choice(("'-838:59:59'", "'12:34:56.78'", "'00:00:00'"))),
    ("YEAR", lambda rng: rng.choice(("0", "1901", "2155", "2000"))),
    ("ENUM('a','b','ü')", lambda rng: rng.choice(("'a'", "'b'", "3"))),
    ("SET('x','y','z')", lambda rng: str(rng.randrange(8))),
    ("VARCHAR(40) CHARACTER SET latin1", _text),
    ("VARCHAR(40) CHARACTER SET utf8mb4", lambda rng: _text(rng, "aA😀日'\\ ")),
    ("CHAR(20) CHARACTER SET utf8", _text),
    ("CHAR(20) CHARACTER SET ucs2", _text),
    ("VARCHAR(20) CHARACTER SET sjis", lambda rng: _text(rng, "a日本ー'")),
    ("TEXT CHARACTER SET utf8mb4", _text),
    ("VARBINARY(20)", _bytes),
    ("BINARY(8)", _bytes),
    ("BLOB", _bytes),
    (
        "GEOMETRY",
        lambda rng: f"ST_GeomFromText('POINT({rng.randrange(9)} 1)', {rng.choice((0, 4326))})",
    ),
]
KEYS = ("INT", "BIGINT UNSIGNED", "DATE", "VARBINARY(20)", "VARCHAR(40) CHARACTER SET latin1")
SETTINGS = ("SET NAMES utf8mb4", "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'")


class Table:
    """A table of a history."""

    def __init__(
        self, rng: random.Random, name: str, flavor: str, version: tuple[int, int, int]
    ) -> None:
        self.name = name
        has_json = flavor == "mysql" and version >= (5, 7, 8)
        types = [*TYPES, ("JSON", _json)] if has_json else TYPES
        self.columns = [rng.choice(types) for _ in range(rng.randrange(1, 8))]
        self.key = rng.choice((*KEYS, "")) if rng.random() < 0.8 else ""
        self.generated = rng.random() < 0.3 and version >= (5, 7, 0)
        makers = dict(TYPES)
        parts = [f"c{at} {kind}" for at, (kind, _) in enumerate(self.columns)]
        if self.key:
            parts = [f"k {self.key} NOT NULL", *parts, "PRIMARY KEY (k)"]
            self.make_key = makers[self.key]
        else:
            parts = ["k INT", *parts]
            self.make_key = makers["INT"]
        if self.generated:
            kind = "STORED" if has_json else "PERSISTENT"
            parts.insert(1, f"g VARCHAR(99) GENERATED ALWAYS AS (HEX(k)) {kind}")
        self.definition = ", ".join(parts)

    def values(self, rng: random.Random) -> list[str]:
        """Values of a row, in the order of the columns that can be given."""
        row = [make(rng) if rng.random() < 0.85 else "NULL" for _, make in self.columns]
        return [self.make_key(rng), *row]

    def statement(self, rng: random.Random) -> str:
        """A random change."""
        names = ["k", *(f"c{at}" for at in range(len(self.columns)))]
        kind = rng.random()
        if kind < 0.5:
            rows = ", ".join(f"({', '.join(self.values(rng))})" for _ in range(rng.randrange(1, 4)))
            return f"INSERT IGNORE INTO {self.name} ({', '.join(names)}) VALUES {rows}"
        limit = rng.randrange(1, 4)
        if kind < 0.8:
            values = dict(zip(names, self.values(rng), strict=True))
            chosen = rng.sample(names, rng.randrange(1, len(names) + 1))
            sets = ", ".join(f"{name} = {values[name]}" for name in chosen)
            return f"UPDATE IGNORE {self.name} SET {sets} ORDER BY RAND({rng.randrange(99)}) LIMIT {limit}"
        return f"DELETE FROM {self.name} ORDER BY RAND({rng.randrange(99)}) LIMIT {limit}"


def checksums(server: LocalServer, names: list[str]) -> list[Any]:
    """CHECKSUM TABLE of tables."""
    return server.query(f"CHECKSUM TABLE {', '.join(names)}")


def prove(server: LocalServer, directory: Path, seed: int) -> Counter[str]:
    """One history.

    Args:
        server: with an archive of its own.
        directory: for indexes.
        seed: of the history.
    """
    rng = random.Random(seed)
    counts: Counter[str] = Counter(histories=1)
    server.rotate()
    first = server.binlog_position()[0]
    database = server.create_database("undo")
    tables = []
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            for setting in SETTINGS:
                cursor.execute(setting)
            cursor.execute("SET foreign_key_checks = 0")
            for number in range(rng.randrange(1, 4)):
                table = Table(rng, f"{database}.t{number}", server.flavor, server.version)
                cursor.execute(f"CREATE TABLE {table.name} ({table.definition}) ENGINE=InnoDB")
                tables.append(table)
            for table in tables:
                for _ in range(6):
                    cursor.execute(table.statement(rng))
            connection.commit()
            names = [table.name for table in tables]
            before = checksums(server, names)
            server.rotate()
            start = ":".join(map(str, server.binlog_position()))
            for _ in range(rng.randrange(1, 9)):
                for _ in range(rng.randrange(1, 7)):
                    cursor.execute(rng.choice(tables).statement(rng))
                    counts["statements"] += 1
                if rng.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
        after = checksums(server, names)
        server.rotate()
        stop = ":".join(map(str, server.binlog_position()))
        names_of_files = server.binlog_files()
        names_of_files = names_of_files[names_of_files.index(first) :]
        files = [server.binlog_path(name) for name in names_of_files]
        archive = open_archive(files, index_directory=directory)
        question = make_question([f"{database}.*"], since=start, until=stop)
        directions: list[tuple[Direction, Any]] = [
            ("undo", before),
            ("redo", after),
            ("undo", before),
        ]
        for direction, expected in directions:
            with make_statements(archive, question, direction) as statements:
                script = list(statements.lines())
                counts["changes"] += statements.changes
            with connection.cursor() as cursor:
                for line in script:
                    if line.startswith("--"):
                        continue
                    cursor.execute(line.removesuffix(";"))
            found = checksums(server, names)
            if found != expected:
                counts["differences"] += 1
                print(f"seed {seed}, {server.name}, {direction}: {expected} became {found}")
                break
    finally:
        connection.close()
    if not counts["differences"]:
        server.drop_database(database)
    return counts
