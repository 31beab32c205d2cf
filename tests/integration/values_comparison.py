"""Random tables and statements on a real server; every decoded row against the server's SELECT.

What a SELECT gave of every row before a statement is kept; the changes that the binlog then has are
applied to it, each before image being compared with what is there; and the result is compared with
what a SELECT gives now: no row more or less, and every value equal.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import apply_diffs
from replica_client.rows.special_values import ABSENT
from tests.integration.values_charsets import modern
from tests.integration.values_generator import makers
from tests.integration.values_kinds import Draws
from tests.integration.values_log import LoggedRows
from tests.integration.values_settings import Settings
from tests.integration.values_statements import Group, Statements
from tests.integration.values_tables import ID, Column, Features, Table, random_table
from tests.integration.values_tally import Tally
from tests.servers.server import Server

ROWS_AT_FIRST = 25
GROUPS = 14
# Duplicate key; no default, or one that is no value (a row is refused then); a trigger's table in
# use by the statement; two engines in a statement under GTIDs.
_REFUSED = {1062, 1364, 1416, 1442, 1048, 1118, 1785, 4025, 6136}
_TRIGGER_TOO_LONG = {3507}
# What a table may be refused for: too wide, too many columns, expressions and their columns.
_TOO_WIDE = {1118, 1117, 1074, 139}
_NO_GENERATED = {1901, 3102, 3106, 3754, 3763, 4161, 1904, 1907, 3758, 1064, 1235, 1906, 1166}
_UNKNOWN = object()


@dataclass(slots=True)
class Cell:
    """A value's text, and the document when it is JSON.

    `fresh`: decoded and not yet compared; `stale`: logged by a server that may log an old value.
    """

    text: str | None
    document: JsonDocument | None = None
    fresh: bool = False
    stale: bool = False


class ValuesComparison:
    """One server, one database of its own.

    `own_server` says that global settings can be changed (checksums, metadata, compression).
    """

    def __init__(
        self, server: Server, database: str, seed: int, *, own_server: bool = False,
        most_columns: int = 299,
    ) -> None:  # fmt: skip
        self.server = server
        self.database = database
        self.tally = Tally()
        self._connection = server.connect(conv={}, ssl_disabled=True)
        self._connection.select_db(database)
        self._execute("ALTER DATABASE CHARACTER SET utf8mb4")
        self._execute("SET sql_mode = '', time_zone = '+00:00', innodb_strict_mode = ON")
        if server.flavor == "mariadb" or server.version < (8, 0):
            self._execute("SET SESSION binlog_format = ROW")
        charsets = sorted(str(row[0]) for row in self._query("SHOW CHARACTER SET"))
        self.draws = Draws(seed, charsets)
        self.rng: random.Random = self.draws.rng
        self.makers = makers(server.flavor, server.version)
        self._features = Features.of(server.flavor, server.version)
        self._settings = Settings(server, self.draws, self._execute, own_server)
        self._log = LoggedRows(server, database, self.tally)
        self._most_columns = most_columns

    def close(self) -> None:
        self._settings.restore()
        self._connection.close()

    def _execute(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def run(self, rows: int) -> Tally:
        """Compares until at least so many rows were changed."""
        while self.tally.rows < rows:
            self.scene()
        return self.tally

    def missing(self, rows: int) -> list[str]:
        """Types and character sets with fewer rows than that, and variants never made."""
        charsets = {modern(name) for name in self.draws.charsets}
        return (
            [name for name in self.makers if self.tally.by_type[name] < rows]
            + sorted(name for name in charsets if self.tally.by_charset[name] < rows)
            + self.draws.unfinished()
        )

    def _weight(self, name: str) -> float:
        """Rows of a type so far, for the choice of types; less where many variants are needed."""
        rows = self.tally.by_type[name]
        unfinished = any(deck.startswith(f"{name} ") for deck in self.draws.unfinished())
        if unfinished or name == "JSON" or f"{name} by character set" in self.draws.rounds:
            return rows / 4
        return rows

    def scene(self) -> None:
        """New tables under new settings, and statements on them."""
        rng = self.rng
        self._settings.choose()
        tables = [self._table()]
        if rng.random() < 0.5:
            tables.append(self._table())
        statements = Statements(
            self.draws, tables, partial_json=self._settings.partial_json
        )  # fmt: skip
        watched = list(tables)
        for table in tables:
            self._change(statements.fill(table, ROWS_AT_FIRST), watched)
        if rng.random() < 0.35:
            watched += self._triggers(statements, tables[0])
        for at in range(GROUPS):
            if at == GROUPS // 2:
                self._settings.choose_of_session()
                if rng.random() < 0.5:
                    self._alter(rng.choice(tables), watched)
            self._change(statements.group(), watched)
            documents = statements.update_documents(rng.choice(tables))
            if documents is not None and self._settings.partial_json:
                self._change(documents, watched)
        for table in watched:
            self._execute(f"DROP TABLE {table.sql_name}")
        self._log.forget()

    def _table(self) -> Table:
        self.tally.tables += 1
        letter = self.rng.choice(("t", "t", "ж", "漢 ", "t`."))
        name = f"{letter}{self.tally.tables}"
        table = random_table(
            self.draws, self.makers, self._features, name, self._weight,
            self._most_columns,
        )  # fmt: skip
        while True:
            hidden = int(table.hidden_key)
            if self._features.generated_keys:
                self._execute(f"SET SESSION sql_generate_invisible_primary_key = {hidden}")
            try:
                self._execute(table.create())
            except pymysql.err.MySQLError as error:
                code = error.args[0]
                self._refused("CREATE", error, {code}, "")
                if code in _NO_GENERATED and any(column.generated for column in table.columns):
                    table.columns = [one for one in table.columns if not one.generated]
                elif code in _TOO_WIDE and len(table.columns) > 2:
                    table = table.narrower()
                elif any(column.invisible for column in table.columns):
                    for column in table.columns:
                        column.invisible = False
                else:
                    raise AssertionError(f"{error}: {table.create()}") from error
            else:
                break
        self.tally.columns[len(table.columns)] += 1
        return table

    def _refused(
        self, what: str, error: pymysql.err.MySQLError, expected: set[int], sql: str
    ) -> None:
        code, text = error.args[0], str(error.args[1])
        if code not in expected:
            raise AssertionError(f"{error}: {sql[:2000]}") from error
        words = " ".join(re.sub(r"'.*'|`.*`", "…", text).split())[:60]
        self.tally.refused[f"{what}: {code} {words}"] += 1

    def _triggers(self, statements: Statements, table: Table) -> list[Table]:
        audit = Table(
            table.name + " é",
            [Column(c.name, c.kind, "", c.not_null) for c in (
                *table.writable, next(c for c in table.columns if c.kind is ID))],
            table.engine,
            keyed=True,
        )  # fmt: skip
        self._execute(audit.create())
        for sql in statements.triggers(table, audit):
            try:
                self._execute(sql)
            except pymysql.err.MySQLError as error:
                self._refused("TRIGGER", error, _TRIGGER_TOO_LONG, sql)
            else:
                self.tally.by_event["CREATE TRIGGER"] += 1
                table.has_trigger = True
        return [audit]

    def _alter(self, table: Table, watched: Sequence[Table]) -> None:
        rng = self.rng
        kind = self.makers[rng.choice(list(self.makers))](self.draws)
        if kind.not_null:
            return
        column = Column(f"añadida{len(table.columns)}", kind)
        sql = f"ALTER TABLE {table.sql_name} ADD COLUMN {column.definition()}"
        at = len(table.columns)
        if rng.random() < 0.5:
            at = table.id_at + 1
            sql += " AFTER id"
        try:
            self._execute(sql)
        except pymysql.err.MySQLError as error:
            self._refused("ALTER", error, _TOO_WIDE, sql)
            return
        self.tally.by_event["ALTER TABLE"] += 1
        table.columns.insert(at, column)
        self._log.forget()
        for cells in table.cells.values():
            cells.insert(at, Cell(None))

    def _change(self, group: Group, watched: Sequence[Table]) -> None:
        """Runs statements and compares what they logged."""
        self.tally.statements += len(group.statements)
        self.tally.by_setting[f"statement {group.name}"] += 1
        start = self.server.binlog_position()
        for sql in group.statements:
            try:
                self._execute(sql)
            except pymysql.err.MySQLError as error:
                self._refused("statement", error, _REFUSED, sql)
        by_name = {table.name: table for table in watched}
        self._group = group.name
        self._where = f"{self.server.name} table {self.tally.tables} {group.name}"
        known, seen = len(self.tally.differences), []
        try:
            for table, before, after in self._log.rows(start, by_name):
                seen.append(f"{table.name}: {before!r} -> {after!r}")
                self._apply(table, before, after)
        except BinlogDecodeError as error:
            self.tally.differ(f"{self._where}: {error}")
        for table in watched:
            self._compare(table)
        if len(self.tally.differences) > known and not self.tally.first_fault:
            shown = [str(self._settings.names), *(table.create() for table in watched)]
            shown += [*group.statements, *seen]
            self.tally.first_fault = "\n".join(shown)

    def _apply(self, table: Table, before: Any, after: Any) -> None:
        key_at = table.key_at
        cells: list[Cell | Any] = [_UNKNOWN] * len(table.columns)
        key = (after if before is None else before)[key_at]
        image = self._settings.image
        if key is ABSENT:
            self.tally.differ(f"{self._where}: {table.name}: an image without its key")
            return
        if before is not None:
            if image == "FULL":
                self._all_there(table, before)
            found = table.cells.pop(key, None)
            if found is None:
                self.tally.differ(f"{self._where}: {table.name} has no row {key} to change")
                return
            cells = found
            for at, value in enumerate(before):
                if value is not ABSENT and cells[at] is not _UNKNOWN:
                    self._same(table, key, at, self._cell(table, at, value, None), cells[at])
        if after is None:
            self._count(table, [at for at, value in enumerate(before) if value is not ABSENT
                                and value is not None])  # fmt: skip
            return
        if image == "FULL" or (before is None and image == "FULL_NODUP"):
            self._all_there(table, after)
        for at, value in enumerate(after):
            if value is not ABSENT:
                cells[at] = self._cell(table, at, value, cells[at])
            if self.server.flavor == "mariadb" and table.columns[at].generated:
                if value is ABSENT:
                    # MariaDB leaves it out of such an image even where it changes.
                    cells[at] = _UNKNOWN
                elif (
                    "VIRTUAL" in table.columns[at].generated
                    and table.has_trigger
                    and self._group == "update_join"
                ):
                    # An UPDATE of two tables logs it as it was before the trigger.
                    cells[at].stale = True
        if after[key_at] is not ABSENT:
            key = after[key_at]
        if key in table.cells:
            self.tally.differ(f"{self._where}: {table.name}: row {key} is there twice")
        table.cells[key] = cells

    def _cell(self, table: Table, at: int, value: Any, old: Any) -> Cell:
        if value is None:
            return Cell(None, fresh=True)
        kind = table.columns[at].kind
        if kind.is_json and isinstance(value, tuple):
            assert isinstance(old, Cell) and old.document is not None
            self.tally.by_event["JSON differences applied to the last document"] += 1
            value = apply_diffs(old.document, value)
        document = value if kind.is_json else None
        return Cell(kind.text(value), document, fresh=True)

    def _all_there(self, table: Table, image: Sequence[Any]) -> None:
        # MariaDB 11.8.9 logs generated columns of plain INSERTs only, and older releases may follow.
        logs_computed = self.server.flavor != "mariadb"
        for at, value in enumerate(image):
            column = table.columns[at]
            if value is ABSENT and (logs_computed or not column.generated):
                what = f"{column.kind.sql[:40]} {column.generated}"
                self.tally.differ(f"{self._where}: {what} is absent", column.kind.type)

    def _same(self, table: Table, key: int, at: int, mine: Cell, theirs: Cell) -> None:
        self.tally.values += 1
        if mine.text != theirs.text:
            column = table.columns[at]
            self.tally.differ(
                f"{self._where}: {table.name} id {key} {column.kind.sql[:60]} {column.generated}: "
                f"server {_short(theirs.text)}, decoded {_short(mine.text)} "
                f"({', '.join(self._settings.names)})",
                column.kind.type,
            )

    def _compare(self, table: Table) -> None:
        """What the changes made of the rows, against the server's own."""
        selected = self._selected(table)
        if selected.keys() != table.cells.keys():
            extra = sorted(table.cells.keys() ^ selected.keys())[:5]
            self.tally.differ(f"{self._where}: {table.name}: rows {extra} are not in both")
        for key, expected in selected.items():
            cells = table.cells.get(key)
            if cells is None:
                continue
            fresh = []
            for at, theirs in enumerate(expected):
                mine = cells[at]
                if mine is _UNKNOWN:
                    continue
                if mine.stale and mine.text != theirs.text:
                    self.tally.by_event["virtual column that MariaDB logged as it was"] += 1
                    continue
                self._same(table, key, at, mine, theirs)
                theirs.document = mine.document
                if mine.fresh and mine.text is not None:
                    fresh.append(at)
            if any(cell is not _UNKNOWN and cell.fresh for cell in cells):
                self._count(table, fresh)
        table.cells = selected  # type: ignore[assignment]

    def _count(self, table: Table, compared: Sequence[int]) -> None:
        kinds = [table.columns[at].kind for at in compared if table.columns[at].kind.type]
        types = {kind.type for kind in kinds}
        charsets = {modern(kind.charset) for kind in kinds if kind.charset}
        extra = {"generated column " + table.columns[at].generated.rpartition(" ")[2]
                 for at in compared if table.columns[at].generated}  # fmt: skip
        extra |= {"invisible column" for at in compared if table.columns[at].invisible}
        extra |= {f"table of {table.engine}", "key" if table.keyed else "no key"}
        self.tally.count([*self._settings.names, *extra], types, charsets)

    def _selected(self, table: Table) -> dict[int, list[Cell]]:
        """The server's text of every value, by the row's key."""
        columns = ", ".join(column.kind.select.format(column.sql_name) for column in table.columns)
        key = table.columns[table.key_at].sql_name
        found = {}
        for row in self._query(f"SELECT {key}, {columns} FROM {table.sql_name}"):
            cells = []
            for column, value in zip(table.columns, row[1:], strict=True):
                text = value.decode("latin-1") if isinstance(value, bytes) else value
                cells.append(Cell(None if text is None else column.kind.expected(text)))
            found[int(row[0])] = cells
        return found


def _short(text: str | None) -> str:
    return "NULL" if text is None else text if len(text) < 200 else f"{text[:150]}…{text[-40:]}"
