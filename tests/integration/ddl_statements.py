"""Single statements on a real server: the tables that it makes, against those that the binlog's text gives.

A server's answer is plain data from information_schema, and the bytes of ENUM and SET labels as SELECT gives them.
A statement that the server takes must give the same table from the binlog alone, or be refused by name. Used by
scripts/proofs/ddl (``--statements``, ``--corpora``) and by scripts/capture/ddl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from replica_client import open_binlog
from replica_client.errors import ReplicaClientError
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import TableState, Unverified
from replica_client.schema.character_sets import charset_name
from replica_client.schema.history import SchemaHistory
from replica_client.stream.transactions.assembler import AssemblyOptions
from tests.servers.server import Server
from tests.unit.schema.tables import MOST_LABELS, Answer, compare

_SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")
_GEOMETRIES = frozenset(
    (
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geometrycollection", "geomcollection"),
    )
)
_IS_READ_ONLY = 3989
_SIZED = ("char", "varchar", "binary", "varbinary")
_ALTERED = re.compile(
    r"\s*ALTER\s+(?:\w+\s+)?TABLE\s+(?:IF\s+EXISTS\s+)?((?:`[^`]+`|[\w$]+)(?:\s*\.\s*(?:`[^`]+`|[\w$]+))?)",
    re.IGNORECASE,
)


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


@dataclass
class Done:
    """A statement that the server took.

    Attributes:
        sql: the statement.
        end: the binlog position after it.
        tables: the server's answer for each table.
    """

    sql: str
    end: tuple[str, int]
    tables: dict[str, Answer]


@dataclass
class Group:
    """Statements that ran one after the other in one session.

    Attributes:
        start: the binlog position before the first.
        done: those that the server took.
        rejected: how many it did not take.
    """

    start: tuple[str, int]
    done: list[Done] = field(default_factory=list)
    rejected: int = 0


@dataclass
class Refused:
    """A statement after which a table of the server is unverified.

    Attributes:
        source: the name of its group.
        sql: the statement.
        reason: of the table's state.
    """

    source: str
    sql: str
    reason: str


@dataclass
class Verdicts:
    """A comparison of many statements.

    Attributes:
        taken: statements that the server took.
        rejected: those that it did not take.
        compared: tables that were compared.
        labels: labels whose bytes were compared.
        wrong: differences.
        refused: statements that are refused by name.
    """

    taken: int = 0
    rejected: int = 0
    compared: int = 0
    labels: int = 0
    wrong: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.taken} statements taken, {self.rejected} not taken by the server, {self.compared} tables and "
            f"{self.labels} labels compared, {len(self.wrong)} wrong, {len(self.refused)} refused by name"
        )


class Subject:
    """Runs statements on a server, and asks what became of its tables."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._asking = server.connect()
        self._ask("SET SESSION sql_log_bin = 0, sql_mode = '', foreign_key_checks = 0")
        if server.flavor == "mariadb":
            self._ask("SET SESSION check_constraint_checks = 0")
        elif server.version >= (8, 0, 30):
            self._ask("SET SESSION show_gipk_in_create_table_and_information_schema = ON")

    def close(self) -> None:
        self._asking.close()

    def run(
        self,
        statements: Iterable[str | bytes | tuple[str, ...]],
        *,
        database: str = "d",
        charset: str = "utf8mb4",
        repair: bool = False,
    ) -> Group:
        """Run statements in a new session, after all databases of earlier ones are dropped.

        Args:
            statements: what to run; SET statements are of the session. Of several in a tuple the first counts that
                the server takes.
            database: the session's.
            charset: the database's.
            repair: make tables and columns that a statement lacks, and run it again.
        """
        self.clear()
        session = self.server.connect(charset="utf8mb4")
        start = self.server.binlog_position()
        group = Group(start)
        try:
            self._take(session, f"CREATE DATABASE {quoted(database)} CHARACTER SET {charset}")
            session.select_db(database)
            if self.server.flavor == "mariadb":
                self._take(session, "SET system_versioning_alter_history = KEEP")
            self._take(session, "SET foreign_key_checks = 0")
            for one in statements:
                for sql in one if isinstance(one, tuple) else (one,):
                    if self._one(session, sql, group, repair=repair):
                        break
        finally:
            session.close()
        return group

    def clear(self) -> None:
        """Drop all databases that are not the server's own."""
        for (name,) in self._ask("SHOW DATABASES"):
            if name in _SYSTEM:
                continue
            try:
                self.server.execute(f"DROP DATABASE {quoted(name)}")
            except pymysql.err.MySQLError as error:
                if error.args[0] == _IS_READ_ONLY:
                    self.server.execute(f"ALTER DATABASE {quoted(name)} READ ONLY = 0")
                self.server.execute("SET foreign_key_checks = 0")
                self.server.execute(f"DROP DATABASE {quoted(name)}")

    def _one(self, session: Any, sql: str | bytes, group: Group, *, repair: bool) -> bool:
        text = sql if isinstance(sql, str) else sql.decode("utf-8", "backslashreplace")
        for _ in range(8 if repair else 1):
            error = self._take(session, sql)
            if error is None:
                break
            repairs = repairing(error, text) if repair else ()
            made = [self._take(session, one) is None for one in repairs]
            if not any(made):
                break
        if error is not None:
            group.rejected += 1
            return False
        if re.match(r"\s*(?:SET|USE)\b(?!\s+STATEMENT)", text, re.IGNORECASE):
            return True
        group.done.append(Done(text, self.server.binlog_position(), self.tables()))
        return True

    @staticmethod
    def _take(session: Any, sql: str | bytes) -> Exception | None:
        try:
            session.query(sql)
        except (pymysql.err.MySQLError, UnicodeError) as error:
            return error
        return None

    def _ask(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with self._asking.cursor() as cursor:
            cursor.execute(sql, arguments or None)
            return [tuple(row) for row in cursor.fetchall()]

    def tables(self) -> dict[str, Answer]:
        """The server's answer for every table."""
        found: dict[str, Answer] = {}
        for (database,) in self._ask("SHOW DATABASES"):
            if database not in _SYSTEM:
                found.update(self._tables_of(database))
        for table, answer in found.items():
            for column in answer["columns"]:
                if column["kind"] in ("enum", "set"):
                    column["labels"] = self._labels(table, column)
        return found

    def _tables_of(self, database: str) -> dict[str, Answer]:
        """The server's answer for the tables of a database; an equality keeps it from opening all others."""
        found: dict[str, Answer] = {}
        for name, collation in self._ask(
            "SELECT TABLE_NAME, TABLE_COLLATION FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
            " AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')",
            database,
        ):
            charset = charset_name((collation or "").split("_")[0])
            found[name] = {"charset": charset, "columns": [], "key": []}
        if not found:
            return found
        for name, *row in self._ask(
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_MAXIMUM_LENGTH,"
            " NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, IS_NULLABLE, CHARACTER_SET_NAME, EXTRA"
            " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s ORDER BY TABLE_NAME, ORDINAL_POSITION",
            database,
        ):
            if name in found:
                found[name]["columns"].append(_column(row))
        for name, column, prefix in self._ask(
            "SELECT TABLE_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
            " WHERE INDEX_NAME = 'PRIMARY' AND TABLE_SCHEMA = %s ORDER BY 1, SEQ_IN_INDEX",
            database,
        ):
            if name in found:
                found[name]["key"].append([column, int(prefix or 0)])
        return {f"{database}.{name}": answer for name, answer in found.items()}

    def _labels(self, table: str, column: Answer) -> list[str] | None:
        """The bytes of a column's labels in hexadecimal; None where no row can be put into the table."""
        database, _, name = table.partition(".")
        path, one = f"{quoted(database)}.{quoted(name)}", quoted(column["name"])
        numbers = [at + 1 if column["kind"] == "enum" else 1 << at for at in range(MOST_LABELS)]
        numbers = [number for number in numbers if number < 1 << 64]
        found: dict[int, str] = {}
        try:
            self._ask("START TRANSACTION")
            # Together, where no unique key is in the way; else one after the other.
            for some in (numbers, *([number] for number in numbers)):
                self._ask(f"DELETE FROM {path}")
                values = ", ".join(f"({number})" for number in some)
                self._ask(f"INSERT IGNORE INTO {path} ({one}) VALUES {values}")
                rows = self._ask(f"SELECT HEX({one}), {one} + 0 FROM {path}")
                if not rows and len(some) == 1:
                    return None
                got = {int(number): text for text, number in rows if number is not None}
                if len(some) == 1 and some[0] not in got:
                    break
                found |= {number: got[number] for number in some if number in got}
                if len(rows) == len(numbers):
                    break
        except pymysql.err.MySQLError:
            return None
        finally:
            self._ask("ROLLBACK")
            try:
                self._ask(f"DELETE FROM {path}")
            except pymysql.err.MySQLError:
                self._asking.rollback()
        return [found[number] for number in numbers if number in found]


def repairing(error: Exception, sql: str) -> tuple[str, ...]:
    """Statements that make what an error says is not there, or drop what is in the way."""
    number, text = (*error.args, "", "")[:2]
    if number == 1 and (lost := re.search(r"'\./([^/']+)/db\.opt'", str(text))):
        # ALTER DATABASE before MySQL 8 and in MariaDB.
        return (f"CREATE DATABASE {quoted(lost[1])}",)
    names = re.findall(r"'([^']+)'", str(text))
    if not names:
        return ()
    path = ".".join(map(quoted, names[0].split(".")))
    if number == 1146:
        return (f"CREATE TABLE {path} (repair_id INT)",)
    if number == 1049:
        return (f"CREATE DATABASE {path}",)
    if number in (1050, 1051):
        return (f"DROP TABLE {path}",) if number == 1050 else ()
    if number == 1007:
        return (f"DROP DATABASE {path}",)
    altered = _ALTERED.match(sql)
    if altered is None or number not in (1054, 1072, 1091, 1176, 1060, 1061):
        return ()
    one = quoted(names[0].split(".")[-1])
    if number == 1060:
        return (f"ALTER TABLE {altered[1]} DROP COLUMN {one}",)
    if number == 1061:
        return (f"ALTER TABLE {altered[1]} DROP KEY {one}",)
    make = f"ALTER TABLE {altered[1]} ADD COLUMN {one} INT"
    return (
        (make, f"ALTER TABLE {altered[1]} ADD KEY {one} ({one})")
        if number in (1091, 1176)
        else (make,)
    )


def _column(row: Sequence[Any]) -> Answer:
    name, data_type, column_type, characters, precision, scale, digits, nullable, charset, extra = (
        row
    )
    column_type, extra = str(column_type), str(extra).upper()
    kind = "geometry" if data_type in _GEOMETRIES else str(data_type)
    length: int | None = None
    if kind in _SIZED:
        length = int(characters)
    elif kind in ("decimal", "bit"):
        length = int(precision)
    elif kind == "vector":
        length = int(re.sub(r"\D", "", column_type) or 0)
    words = extra.split()
    return {
        "name": name,
        "kind": kind,
        "length": length,
        "scale": int(scale or 0) if kind == "decimal" else 0,
        "fraction": int(digits or 0),
        "unsigned": "unsigned" in re.sub(r"\(.*\)", "", column_type).split(),
        # MySQL 9.7 lists none for labels of bytes.
        "charset": charset_name(charset or ("binary" if kind in ("enum", "set") else "")),
        "nullable": nullable == "YES",
        "visible": "INVISIBLE" not in words,
        "auto_increment": "AUTO_INCREMENT" in words,
        "on_update": "ON UPDATE" in extra,
        "generated": bool(re.search(r"\b(?:VIRTUAL|STORED|PERSISTENT)\b", extra)),
    }


def history_of(
    paths: Path | Sequence[Path], start: tuple[str, int], end: tuple[str, int] | None
) -> SchemaHistory:
    """The history that a part of the binlog gives."""
    paths = [paths] if isinstance(paths, Path) else list(paths)
    reader = open_binlog(
        paths,
        start=Position(*start),
        stop=None if end is None else Position(*end),
        schema=None,
        assembly=AssemblyOptions(Selection(["*.*"]), record_losses="all"),
    )
    for transaction in reader.transactions():
        for _ in transaction.changes:
            pass
    return reader.history


def state_at(history: SchemaHistory, table: str, end: tuple[str, int]) -> TableState | None:
    """What the history knows of a table at a position."""
    database, _, name = table.partition(".")
    state: TableState | None = None
    for version in history.versions((database, name)):
        if (version.since.file, version.since.offset) < end:
            state = version.state
    return state


def judged(server: Any, groups: Iterable[tuple[str, Group]], verdicts: Verdicts) -> None:
    """Compare groups, each with a name, with the histories that the server's binlog gives."""
    names = server.binlog_files()
    for name, group in groups:
        if not group.done:
            verdicts.rejected += group.rejected
            continue
        last = group.done[-1].end
        used = names[names.index(group.start[0]) : names.index(last[0]) + 1]
        try:
            history = history_of([server.binlog_path(one) for one in used], group.start, last)
        except ReplicaClientError as error:
            verdicts.wrong.append(f"{name}: {type(error).__name__}: {error}")
            continue
        verdicts.wrong += [f"{name}: {text}" for text in judge(history, group, verdicts, name)]


def judge(
    history: SchemaHistory, group: Group, verdicts: Verdicts, source: str = ""
) -> Iterator[str]:
    """Compare a group's statements with the history, and give what is wrong."""
    verdicts.rejected += group.rejected
    before: dict[str, TableState | None] = {}
    seen: dict[str, Answer] = {}
    for done in group.done:
        verdicts.taken += 1
        names = {".".join(name) for name in history.tables()} | set(done.tables)
        for name in sorted(names):
            state = state_at(history, name, done.end)
            answer = done.tables.get(name)
            if answer is not None and not answer["columns"]:
                continue  # the server cannot open it: a MERGE table of tables that differ
            if state is before.get(name) and answer == seen.get(name):
                continue
            before[name] = state
            verdicts.compared += answer is not None
            differences, labels = compare(state, answer, name)
            verdicts.labels += labels
            if isinstance(state, Unverified) and answer is not None:
                verdicts.refused.append(Refused(source, done.sql, state.reason))
            for text in differences:
                yield f"{done.sql[:600]!r}: {text}"
        seen = done.tables
