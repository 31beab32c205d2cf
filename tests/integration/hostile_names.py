"""Tables whose names, labels, defaults and comments are against us, through every sink and the lake.

A seeded generator makes them on a real source. Then a daemon with all sinks copies and follows them, and
a pipeline keeps a lake of some of them. What is proved:

* what a sink shows is what the source shows: rows, names of columns, labels;
* no file is outside its directory;
* no statement reached the mirror's server that is not one of ours, as its own general log has it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_client.schema.names import mysql_name, mysql_names, mysql_table, mysql_text
from tests.integration.daemon_process import DaemonProcess
from tests.integration.mirror_source import source_tables
from tests.integration.sink_comparison import compare_sink
from tests.servers.local import LocalServer

PREFIX = "m_"
STATE = "hostile_state"
SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")

PIECES = (
    *(
        "\\",
        "\\\\",
        "'",
        "''",
        '"',
        "`",
        "``",
        "%",
        "%%",
        "%s",
        "%(x)s",
        "{0}",
        "${HOME}",
        "?",
        ":p",
    ),
    *("--", "-- ", "#", "/*", "*/", ";", ",", "(", ")", "=", "@@version", "\n", "\r", "\t", "\x1a"),
    *(
        "..",
        "/",
        "../",
        "\\..\\",
        ".",
        "_",
        "~",
        "%2E",
        "%2F",
        "%00",
        "%u2E",
        "%~",
        "&",
        "<b>",
        "|",
    ),
    *("é", "e\u0301", "ß", "İ", "日", "本", "ｱ", "縗", "\u202e", "\ufeff", "\u00a0", "\u2028"),
    *("a", "A", "b", "Z", "0", " ", "x", "select", "NULL", "rowid", "id"),
)
WHOLE = (
    *(
        "..",
        ".",
        "...",
        "/",
        "../../../pwned",
        "/pwned-by-a-name",
        "..\\pwned",
        "~root",
        "$(id)",
        "`id`",
    ),
    *("_open", "_segments", "_schema_changes", "_delta_log", "sqlite_master", "sqlite_x", ".lock"),
    *("parquet.checkpoint.json", "changes-000001.jsonl", "mirror.db", "_replica_client_tables"),
    *("Orders", "orders", "ORDERS", "a.b", "con", "nul", "-rf", "*", "CREATE TABLE pwned (a INT)"),
    *(
        "`; CREATE DATABASE pwned; -- ",
        "` (a INT); CREATE DATABASE pwned; #",
        '"; DROP TABLE x; --',
    ),
    *("'); CREATE DATABASE pwned; -- ", "\\'); CREATE DATABASE pwned; #", "\\", "'", "`", '"', "%"),
)
LABELS = (
    "\\",
    "), pwned TEXT) ENGINE=InnoDB SELECT User FROM mysql.user #",
    "\\'), pwned TEXT) SELECT User FROM mysql.user #",
    "'); CREATE DATABASE pwned; -- ",
    "50%",
    "%%",
)


class Maker:
    """Makes texts; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def text(self, longest: int = 24) -> str:
        chance = self._chance
        if chance.random() < 0.2:
            return chance.choice(WHOLE + LABELS)
        return "".join(chance.choices(PIECES, k=chance.randint(1, 8)))[:longest]

    def name(self, longest: int = 24) -> str:
        """A name that servers take: no blank at its end, and no other one that they take for it."""
        while True:
            found = self.text(longest)[:longest].rstrip()
            # Nothing here is about names that differ in what a collation makes of them.
            if found.strip(" \t\r\n\x1a\u00a0\u2028\ufeff"):
                return found

    def distinct(self, count: int, make: Callable[[], str]) -> list[str]:
        found: dict[str, str] = {}
        while len(found) < count:
            one = make()
            found.setdefault(re.sub(r"\W", lambda m: f"<{ord(m[0])}>", one.casefold()), one)
        return list(found.values())

    def pick(self, given: list[str]) -> str:
        return self._chance.choice(given)

    def flip(self, probability: float = 0.5) -> bool:
        return self._chance.random() < probability


@dataclass
class Hostile:
    """A table: a number, an ENUM, a SET, and columns of text.

    Attributes:
        database: its database.
        name: its name.
        columns: names of its columns.
        added: of the column that an ALTER adds.
        labels: of the ENUM; the first ones are the SET's.
        keyed: whether it has a primary key.
        plain: whether its columns have ordinary names: a Delta table takes not every name.
    """

    database: str
    name: str
    columns: list[str]
    added: str
    labels: list[str]
    keyed: bool
    plain: bool

    @property
    def sql_name(self) -> str:
        return mysql_table(self.database, self.name)

    @property
    def texts(self) -> int:
        """Names, labels, defaults and comments; those of columns with ordinary names are none."""
        columns = len(self.columns) + 1
        names = 1 + (0 if self.plain else columns)
        return names + len(self.labels) + (columns + 1) + (columns - 3)

    def create(self, maker: Maker) -> Iterator[str]:
        number, choice, several, *texts = map(mysql_name, self.columns)
        labels = ", ".join(map(_text, self.labels))
        members = ", ".join(map(_text, self.labels[:8]))
        key = "PRIMARY KEY" if self.keyed else "NULL"
        columns = [
            f"{number} INT {key} COMMENT {_text(maker.text())}",
            f"{choice} ENUM({labels}) COMMENT {_text(maker.text())}",
            f"{several} SET({members}) COMMENT {_text(maker.text())}",
            *(
                f"{text} VARCHAR(60) DEFAULT {_text(maker.text())} COMMENT {_text(maker.text())}"
                for text in texts
            ),
        ]
        yield (
            f"CREATE TABLE {self.sql_name} ({', '.join(columns)}) "
            f"CHARACTER SET utf8mb4 COLLATE utf8mb4_bin COMMENT {_text(maker.text(40))}"
        )

    def fill(self, first: int, maker: Maker) -> str:
        """Rows with every label; what is left out has its default."""
        texts = self.columns[3:]
        given = [name for name in texts if maker.flip()]
        rows = ", ".join(
            f"({first + at}, {at + 1}, {at % 256}"
            + "".join(f", {_text(maker.text())}" for _ in given)
            + ")"
            for at in range(len(self.labels))
        )
        names = mysql_names([*self.columns[:3], *given])
        return f"INSERT INTO {self.sql_name} ({names}) VALUES {rows}"

    def changes(self, maker: Maker) -> Iterator[str]:
        number, choice, _, text, *_ = map(mysql_name, self.columns)
        yield self.fill(100, maker)
        yield f"UPDATE {self.sql_name} SET {text} = {_text(maker.text())} WHERE {number} < 3"
        yield f"DELETE FROM {self.sql_name} WHERE {choice} = 2"
        yield (
            f"ALTER TABLE {self.sql_name} ADD {mysql_name(self.added)} VARCHAR(60) CHARACTER SET utf8mb4 "
            f"COLLATE utf8mb4_bin NOT NULL DEFAULT {_text(maker.text())} COMMENT {_text(maker.text())}"
        )
        yield f"DELETE FROM {self.sql_name} WHERE {number} = 100"


@dataclass
class Report:
    """What was proved.

    Attributes:
        texts: hostile names, labels, defaults and comments.
        tables: of the source.
        compared: rows or lines by sink.
        statements: of the mirror's server's general log that were looked at.
        lake: rows of the lake's tables.
    """

    texts: int = 0
    tables: int = 0
    compared: dict[str, int] = field(default_factory=dict)
    statements: int = 0
    lake: int = 0

    def __str__(self) -> str:
        sinks = ", ".join(f"{name} {count:,}" for name, count in self.compared.items())
        return (
            f"{self.texts:,} hostile texts in {self.tables:,} tables; rows or lines compared: {sinks}; lake: "
            f"{self.lake:,} rows; {self.statements:,} statements in the mirror's server's log, all ours"
        )


def make_tables(maker: Maker, count: int) -> list[Hostile]:
    """Tables in databases of a few tables each."""
    databases = maker.distinct(max(2, count // 6), lambda: maker.name(20))
    databases = [name for name in databases if name.lower() not in (*SYSTEM, STATE)]
    found: dict[tuple[str, str], Hostile] = {}
    while len(found) < count:
        database, name = maker.pick(databases), maker.name()
        labels = maker.distinct(40, lambda: maker.text().rstrip(" ").replace(",", ";") or "x")
        if (database, name) not in found:
            plain = maker.flip()
            columns = [f"c{at}" for at in range(13)] if plain else maker.distinct(13, maker.name)
            found[database, name] = Hostile(
                database, name, columns[:12], columns[12], labels, maker.flip(0.7), plain
            )
    return list(found.values())


def prove_hostile_names(
    source: LocalServer,
    target: LocalServer,
    directory: Path,
    *,
    texts: int,
    seed: int,
    lake_tables: int = 0,
    others: Mapping[str, Mapping[str, Any]] | None = None,
    patience: float = 1200,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run the proof; see the module.

    Args:
        source: empty.
        target: of the mirror: empty, with its general log in a table.
        directory: empty; everything is made below it.
        texts: at least so many are made.
        seed: of the generator.
        lake_tables: tables that the lake has, too.
        others: more sinks, by name: their options with their type.
        patience: seconds that the sinks may need, twice.
        say: is told how far it is.

    Raises:
        AssertionError: something is not as it should be.
    """
    maker, report = Maker(seed), Report()
    inside = directory / "inside"
    work = inside / "daemon"
    work.mkdir(parents=True)
    users = target.query("SELECT COUNT(*) FROM mysql.user")
    tables = make_tables(maker, max(4, texts // 65))
    half = len(tables) // 2
    for database in dict.fromkeys(table.database for table in tables):
        source.execute(f"CREATE DATABASE {mysql_name(database)}")
    for table in tables[:half]:
        _make(source, table, maker)
    sinks = sinks_of(work, target, others or {})
    settings = {"url": source.url(), "start": "earliest"}
    with DaemonProcess(work, settings, list(sinks.values())) as daemon:
        daemon.until_level(patience)
        say(f"{half} tables are copied")
        for table in tables[half:]:
            _make(source, table, maker)
        for table in tables:
            for statement in table.changes(maker):
                source.execute(statement)
        daemon.until_level(patience)
        say("all changes have arrived")
        assert not [route for route in daemon.status()["routes"] if route["errors"]], daemon.tail()
        daemon.get("/metrics")
        assert daemon.stop() == 0
    there = source_tables(source)
    assert sorted(there) == sorted((table.database, table.name) for table in tables)
    report.tables = len(tables)
    report.texts = sum(table.texts for table in tables)
    for name, sink in sinks.items():
        own = {key: value for key, value in sink.items() if key not in ("name", "type", "snapshot")}
        report.compared[name] = compare_sink(sink["type"], own, source, tables=["*.*"]).rows
        say(f"{name} is the same")
    compare_labels(source, target)
    report.statements = check_statements(target)
    check_files(directory, inside, work)
    wanted = {PREFIX + table.database for table in tables} | {STATE, *SYSTEM}
    assert {str(name) for (name,) in target.query("SHOW DATABASES")} <= wanted
    assert target.query("SELECT COUNT(*) FROM mysql.user") == users
    if lake_tables:
        from tests.integration.hostile_lake import prove_lake

        report.lake = prove_lake(source, inside / "pipeline", tables, lake_tables)
        check_files(directory, inside, work)
    return report


def sinks_of(
    work: Path, target: LocalServer, others: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Every sink, by name."""
    found: dict[str, dict[str, Any]] = {
        "file": {"type": "file", "path": work / "lines"},
        "maxwell": {"type": "file", "path": work / "maxwell", "format": "maxwell"},
        "parquet": {"type": "parquet", "path": work / "parquet", "roll_seconds": 2.0},
        "sqlite": {"type": "sqlite", "path": work / "mirror.db", "snapshot": True},
        "duckdb": {"type": "duckdb", "path": work / "mirror.duckdb", "snapshot": True},
        "replayed": {"type": "sqlite", "path": work / "replayed.db"},
        "mysql": {
            "type": "mysql", "url": target.url("root"), "database_prefix": PREFIX,
            "state_database": STATE, "snapshot": True,
        },
    }  # fmt: skip
    found.update((name, dict(sink)) for name, sink in others.items())
    return {name: {"name": name, **sink} for name, sink in found.items()}


def compare_labels(source: LocalServer, target: LocalServer) -> None:
    """Names of columns and labels are the same in the mirror."""
    query = (
        "SELECT table_schema, table_name, column_name, "
        "IF(data_type IN ('enum', 'set'), column_type, data_type) FROM information_schema.columns "
        f"WHERE table_schema NOT IN {(*SYSTEM, STATE)} ORDER BY 1, 2, ordinal_position"
    )
    mine = [(str(row[0]).removeprefix(PREFIX), *row[1:]) for row in target.query(query)]
    theirs = [tuple(row) for row in source.query(query)]
    assert sorted(mine) == sorted(theirs)


def check_files(directory: Path, inside: Path, work: Path) -> None:
    """Nothing is beside what was made here, and nothing of a sink beside the sinks."""
    assert list(directory.iterdir()) == [inside]
    assert {path.name for path in inside.iterdir()} <= {"daemon", "pipeline"}
    known = {"lines", "maxwell", "parquet", "state", "daemon.toml", "daemon.log"}
    for path in work.iterdir():
        # DuckDB's sink locks its file by one next to it.
        is_database = re.fullmatch(
            r"(?:mirror|replayed)\.(?:db|duckdb)[-.a-z]*|\.mirror\.duckdb\.[0-9a-f]{12}\.lock",
            path.name,
        )
        assert path.name in known or is_database, path
    for path in (work / "parquet").rglob("*"):
        assert path.resolve().is_relative_to(work / "parquet"), path
    assert not Path("/pwned-by-a-name").exists()


_NAME = r"`(?:[^`]|``)+`"
_TEXT = r"'(?:[^'\\]|''|\\.)*'"
_LEXEMES = re.compile(rf"(?P<name>{_NAME})|(?P<text>{_TEXT})", re.DOTALL)
_VALUE = r"(?:S|NULL|UNHEX\(S\)|-?[0-9.]+(?:e[-+]?[0-9]+)?)"
_ROW = rf"\({_VALUE}(?:, ?{_VALUE})*\)"
_TYPE = r"[a-z]+(?:\([0-9]+(?:,[0-9]+)?\)|\(S(?:,S)*\))?(?: unsigned)?"
_COLUMN = (
    rf"N {_TYPE}(?: CHARACTER SET [a-z0-9]+ COLLATE [a-z0-9_]+)?(?: NOT NULL| NULL)"
    r"(?: DEFAULT (?:S|_utf8mb4 xS|[0-9.]+))?"
)
_OURS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"SET SESSION sql_select_limit = [0-9]+, max_join_size = [0-9]+, sql_big_selects = 1, "
        r"sql_quote_show_create = 1, sql_mode = S(?: /\*M?![0-9]+ , max_[a-z]+_time = 0 \*/)+",
        r"SET SESSION sql_(?:require|generate_invisible)_primary_key = 0",
        r"SELECT GET_LOCK\(S, [0-9]+\)|DO RELEASE_LOCK\(S\)|SELECT CONNECTION_ID\(\)",
        r"START TRANSACTION|COMMIT|ROLLBACK|SET AUTOCOMMIT = [01]|",
        r"SELECT (?:@@[A-Za-z_.]+|VERSION\(\))(?:, @@[A-Za-z_.]+)*",
        r"SET SESSION sql_mode = S, time_zone = S, foreign_key_checks = 0, unique_checks = 1, "
        r"autocommit = 1",
        r"SELECT C[A-Z_]+_NAME FROM information_schema\.[A-Z_]+",
        r"SELECT table_comment(?:, table_schema, table_name)? FROM information_schema\.tables "
        r"WHERE (?:table_comment LIKE S|table_schema = S AND table_name = S)",
        r"CREATE DATABASE IF NOT EXISTS N",
        r"CREATE TABLE IF NOT EXISTS N\.mirror_[a-z]+ \([A-Za-z0-9_ (),]+\) ENGINE=InnoDB",
        r"SELECT [a-z_, ]+ FROM N\.mirror_[a-z]+"
        r"(?: WHERE (?:database_name = S AND )?name = S(?: FOR UPDATE)?)?",
        rf"REPLACE INTO N\.mirror_[a-z]+ VALUES {_ROW}",
        r"DELETE FROM N\.mirror_[a-z]+ WHERE database_name = S AND name = S",
        rf"CREATE TABLE N\.N \({_COLUMN}(?:, {_COLUMN})*(?:, PRIMARY KEY \(N(?:, N)*\))?\) "
        r"ENGINE=InnoDB COMMENT = S",
        rf"ALTER TABLE N\.N (?:ADD COLUMN {_COLUMN} (?:FIRST|AFTER N), )*COMMENT = S",
        r"DROP TABLE(?: IF EXISTS)? N\.N",
        rf"(?:INSERT|REPLACE) INTO N\.N(?: \(N(?:, N)*\))? VALUES {_ROW}(?:, {_ROW})*"
        r"(?: AS new)?(?: ON DUPLICATE KEY UPDATE N = (?:VALUES\(N\)|new\.N)"
        r"(?:, N = (?:VALUES\(N\)|new\.N))*)?",
        rf"SELECT COUNT\(\*\) FROM N\.N WHERE N IN \({_VALUE}(?:, {_VALUE})*\)",
        rf"DELETE FROM N\.N WHERE N IN \({_VALUE}(?:, {_VALUE})*\)",
        rf"DELETE FROM N\.N WHERE (?:[^;#]*?<=> {_VALUE}(?: AND )?)+ LIMIT [0-9]+",
        rf"UPDATE N\.N SET N = {_VALUE}(?:, N = {_VALUE})* WHERE N = {_VALUE}",
        r"SELECT 1 FROM N\.N LIMIT 1|SELECT ROW_COUNT\(\)",
    )
)


def check_statements(target: LocalServer) -> int:
    """Look at every statement that the mirror ran, as the server's own log has it; how many."""
    rows = target.query(
        "SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND user_host LIKE 'root%' "
        "AND thread_id IN (SELECT thread_id FROM mysql.general_log WHERE argument LIKE "
        "'SET SESSION sql_mode = \\'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO%')"
    )
    others: dict[str, str] = {}
    for (argument,) in rows:
        text = argument.decode() if isinstance(argument, bytes) else str(argument)
        bare = _LEXEMES.sub(lambda match: "N" if match["name"] else "S", text)
        if not any(one.fullmatch(bare) for one in _OURS):
            others.setdefault(bare[:300], text[:300])
    assert not others, f"not ours: {others}"
    assert len(rows) > 100
    return len(rows)


def _make(source: LocalServer, table: Hostile, maker: Maker) -> None:
    for statement in table.create(maker):
        source.execute(statement)
    source.execute(table.fill(1, maker))


def _text(value: str) -> str:
    return mysql_text(value, backslash_escapes=True)
