"""A mirror on a MySQL or MariaDB server.

A table has the source's database and name; a prefix of the database is optional. The mirror's own
tables are in the database ``replica_client``, or the one that the configuration names.

DDL ends a transaction. Each statement that creates or alters a table also sets the table's comment
to the position of the source's statement, so that a statement applied before a crash is not applied
again. Writes to the mirror's own tables wait for the commit.
"""

# Over 500 lines: one session on one server, whose statements share its transaction.

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

from replica_client.errors import ServerError, SinkError
from replica_client.schema.kinds import LIMITS, kinds_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.names import (
    before_arguments,
    mysql_name,
    mysql_table,
    mysql_text,
    mysql_value,
)
from replica_client.sinks.mirror.mirror_database import Alteration
from replica_client.sinks.mirror.mysql_rows import MysqlRows, TargetServer
from replica_client.sinks.mirror.stored_names import StoredNames, mysql_database, mysql_names
from replica_client.stream.tables.alterations import CannotFollowError, ColumnSource
from replica_client.stream.tables.conversions import StoredValue
from replica_client.stream.tables.net_changes import TableName, Values
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection

Result = TypeVar("Result")

_MODE: Final = (
    "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION,"
    "ERROR_FOR_DIVISION_BY_ZERO"
)
_SESSION: Final = (
    # The mirror sets its own mode, which defines the meaning of backslashes and double quotes.
    f"SET SESSION sql_mode = '{_MODE}', time_zone = '+00:00', foreign_key_checks = 0, "
    "unique_checks = 1, autocommit = 1"
)
_ASKED: Final = ("sql_require_primary_key", "sql_generate_invisible_primary_key")
_NO_DEFAULT: Final = frozenset((*LIMITS, *kinds_of("json", "spatial", "vector")))
_TEXT: Final = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"


class MysqlDatabase(MysqlRows):
    """A mirror's MySQL or MariaDB server.

    Args:
        options: options of the connection.
        prefix: prefix of database names.
        state: database of the mirror's own tables.
        names: stored names of another session of the same mirror; None: start with none.
    """

    locking = " FOR UPDATE"
    alters = True
    native = True
    ddl_commits = True
    database_column = "database_name"

    def __init__(
        self, options: ConnectOptions, *, prefix: str, state: str, names: StoredNames | None = None
    ) -> None:
        self.where = f"mirror on {options.address}"
        self._options, self._prefix, self._state_name = options, prefix, state
        self._loop = asyncio.new_event_loop()
        try:
            self._connection = self._wait(SourceConnection.open(options))
            try:
                self._target, self._packet = self._prepare_session()
            except BaseException:
                self._wait(self._connection.close())
                raise
        except BaseException:
            self._loop.close()
            raise
        self.names = names or mysql_names(ignores_case=self._target.ignores_case)
        own = self.staging = before_arguments(mysql_name(state))
        self.state_table = f"{own}.mirror_state"
        self.tables_table = f"{own}.mirror_tables"
        self.copies_table = f"{own}.mirror_copies"
        self._mark = f"replica_client {state} "
        self._begun = self._ended = self._changed = self._locked = False
        self._pending: dict[tuple[str, ...], tuple[str, Sequence[str]]] = {}
        # Position of the source's statement, and the number of the change in it.
        self._step, self._is_done = "", False
        self._done = ("", 0)

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run_until_complete(work)

    def _prepare_session(self) -> tuple[TargetServer, int]:
        self.run(_SESSION)
        for setting in _ASKED:
            # Some servers lack the setting, and some accounts may not change it: a refused table is
            # then an error of that table alone.
            with contextlib.suppress(ServerError):
                self.run(f"SET SESSION {setting} = 0")
        charsets = self.run("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
        collations = self.run("SELECT COLLATION_NAME FROM information_schema.COLLATIONS")
        ((packet, letter_case, mode),) = self.run(
            "SELECT @@max_allowed_packet, @@lower_case_table_names, @@SESSION.sql_mode"
        )
        if "NO_BACKSLASH_ESCAPES" in str(mode):
            raise SinkError(
                f"{self._options.address} keeps sql_mode = {mode} for the mirror's session; connect to it without "
                "what is between"
            )
        server = self._connection.server
        target = TargetServer(
            server.is_mariadb,
            server.version,
            frozenset(str(row[0]) for row in charsets),
            frozenset(str(row[0]) for row in collations),
            ignores_case=int(letter_case) != 0,
        )
        return target, int(packet)

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, in which a % of a name is doubled, and return its rows."""
        text = sql if values else sql.replace("%%", "%")
        return self._wait(self._connection.query(text, values))

    # The transaction, and the mirror's own tables.

    def prepare(self) -> None:
        own = self.staging
        self.run(f"CREATE DATABASE IF NOT EXISTS {own}")
        self.run(
            f"CREATE TABLE IF NOT EXISTS {self.state_table} (name VARCHAR(64) {_TEXT} PRIMARY KEY, "
            f"value LONGTEXT {_TEXT}) ENGINE=InnoDB"
        )
        for table, column in ((self.tables_table, "definition"), (self.copies_table, "copy")):
            self.run(
                f"CREATE TABLE IF NOT EXISTS {table} (database_name VARCHAR(64) {_TEXT}, name VARCHAR(64) {_TEXT}, "
                f"{column} LONGTEXT {_TEXT}, PRIMARY KEY (database_name, name)) ENGINE=InnoDB"
            )

    @property
    def is_made(self) -> bool:
        return bool(
            self.run(
                "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'mirror_state'",
                (self._state_name,),
            )
        )

    @property
    def session(self) -> str:
        ((number,),) = self.run("SELECT CONNECTION_ID()")
        return str(number)

    def end_session(self, session: str) -> None:
        # Session numbers are reused: only a session of this user is ended.
        found = self.run(
            "SELECT 1 FROM information_schema.processlist WHERE id = %s AND "
            "user = SUBSTRING_INDEX(USER(), '@', 1)",
            (int(session),),
        )
        if found:
            with contextlib.suppress(ServerError):  # it ended meanwhile
                self.run(f"KILL {int(session)}")

    def lock_owners(self) -> None:
        ((got,),) = self.run("SELECT GET_LOCK(%s, 10)", (self._lock_name,))
        if got != 1:
            raise SinkError("another process opens this mirror", retriable=True)
        self._locked = True

    @property
    def _lock_name(self) -> str:
        return f"replica_client.{self._state_name}"[:64]

    @property
    def in_transaction(self) -> bool:
        return self._begun

    @property
    def unlocked(self) -> bool:
        return self._ended

    def begin(self) -> None:
        self.run("START TRANSACTION")
        self._begun, self._ended = True, False

    def commit(self) -> None:
        if self._ended and self._pending:
            self.begin()
        for sql, values in self._pending.values():
            self.run(sql, values)
        if not self._ended:
            self.run("COMMIT")
        self._end()

    def rollback(self) -> None:
        if not self._ended:
            self.run("ROLLBACK")
        self._end()

    def _end(self) -> None:
        self._pending.clear()
        self._begun = self._ended = self._changed = False
        if self._locked:
            self._locked = False
            self.run("DO RELEASE_LOCK(%s)", (self._lock_name,))

    def abort(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._connection.abort)

    def close(self) -> None:
        if not self._loop.is_closed():
            try:
                self._wait(self._connection.close())
            finally:
                self._loop.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        yield from self.run(sql, values)

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        self._changed = True
        self.run(sql, values)
        return int(self.run("SELECT ROW_COUNT()")[0][0])

    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        """Store a text; see the base.

        In a transaction it is written at the commit, as DDL would end the transaction earlier.
        """
        marks = ", ".join(["%s"] * len(columns))
        self._write((table, *values[:-1]), f"REPLACE INTO {table} VALUES ({marks})", values)

    def take(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        where = " AND ".join(f"{name} = %s" for name in columns)
        self._write((table, *values), f"DELETE FROM {table} WHERE {where}", values)

    def _write(self, key: tuple[str, ...], sql: str, values: Sequence[str]) -> None:
        if self._begun:
            self._pending[key] = sql, tuple(values)
        else:
            self.run(sql, values)

    # Tables.

    def table(self, name: TableName) -> str:
        return before_arguments(
            mysql_table(mysql_database(self._prefix, name[0]), self.names.name(name))
        )

    def at_step(self, position: str, number: int, *, may_repeat: bool) -> None:
        self._step = f"{position}/{number}" if position else ""
        self._is_done = False
        if position and may_repeat:
            if self._done[0] != position:
                self._done = position, self._steps_done(position)
            self._is_done = number < self._done[1]

    @property
    def is_done(self) -> bool:
        return self._is_done

    def _steps_done(self, position: str) -> int:
        """Return how many changes of the statement at a position left a comment."""
        text = self._mark + position
        for char in "\\%_":
            text = text.replace(char, f"\\{char}")
        found = self.run(
            "SELECT table_comment FROM information_schema.tables WHERE table_comment LIKE %s",
            (f"{text}/%",),
        )
        return max((int(str(row[0]).rpartition("/")[2]) + 1 for row in found), default=0)

    def _comment(self) -> str:
        text = self._mark + (self._step or "of rows")
        return f"COMMENT = {before_arguments(mysql_text(text, backslash_escapes=True))}"

    def _ddl(self, sql: str) -> None:
        if self._changed:
            raise SinkError(
                "a schema change was written before what is in front of it was committed"
            )
        # The server ends the transaction first, even if it then refuses the statement.
        self._ended = self._begun
        self.run(sql)

    def _is_ours(self, name: TableName) -> bool | None:
        """Return whether a table has the mirror's comment; None if there is no such table."""
        wanted = (mysql_database(self._prefix, name[0]), self.names.name(name))
        rows = self.run(
            "SELECT table_comment, table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema = %s AND table_name = %s",
            wanted,
        )
        if not self._target.ignores_case:
            # Old servers ignore case when they filter these listings.
            rows = [row for row in rows if (str(row[1]), str(row[2])) == wanted]
        return str(rows[0][0]).startswith(self._mark) if rows else None

    def create(self, model: TableModel) -> None:
        """Create a table, in place of one that the mirror made; see the base.

        Raises:
            SinkError: the table exists and is not the mirror's.
        """
        if self._is_done:
            return
        if self._changed:
            # DDL would end the transaction of this session.
            other = MysqlDatabase(
                self._options, prefix=self._prefix, state=self._state_name, names=self.names
            )
            with contextlib.closing(other):
                other.create(model)
            return
        name = (model.database, model.name)
        if self._is_ours(name) is False:
            raise SinkError(
                f"the mirror's server has a table {self._shown(name)} that the mirror did not make: drop it, "
                "or set database_prefix"
            )
        self._make(model)

    def _make(self, model: TableModel) -> None:
        self._create_database(model.database)
        table = self.table((model.database, model.name))
        self._ddl(f"DROP TABLE IF EXISTS {table}")
        self._ddl(self.definition(model, table))

    def _create_database(self, database: str) -> None:
        name = before_arguments(mysql_name(mysql_database(self._prefix, database)))
        self._ddl(f"CREATE DATABASE IF NOT EXISTS {name}")

    def _shown(self, name: TableName) -> str:
        return self.table(name).replace("%%", "%")

    def drop(self, name: TableName) -> None:
        self._ddl(f"DROP TABLE IF EXISTS {self.table(name)}")

    def drop_unknown(self, name: TableName) -> None:
        """Drop a table only if the mirror made it; see the base."""
        if self._is_ours(name):
            self.drop(name)

    def truncate(self, model: TableModel) -> None:
        self._ddl(f"TRUNCATE TABLE {self.table((model.database, model.name))}")

    def renew(self, old: TableModel, new: TableModel) -> None:
        name, after = (old.database, old.name), (new.database, new.name)
        if not self._is_done:
            objects = self.objects(old)
            if name == after:
                self._make(new)
            else:
                self.create(new)
                self.drop(name)
            self.make_objects(after, objects)
        if name != after:
            self.names.forget(name)

    def rename(self, old: TableName, new: TableModel) -> None:
        before, after = self._move(old, new)
        if not self._is_done:
            self._create_database(new.database)
            self._ddl(f"ALTER TABLE {before} RENAME TO {after}, {self._comment()}")

    def _move(self, old: TableName, new: TableModel) -> tuple[str, str]:
        """Return a table's names, as SQL, before and after a rename, and record the new one."""
        before = self.table(old)
        self.names.forget(old)
        return before, self.table((new.database, new.name))

    def has(self, stored: str) -> bool:
        return False

    def objects(self, model: TableModel) -> list[str]:
        """Return SQL for columns, indexes, constraints and triggers; see the base.

        Grants and views refer to the table by name only.
        """
        name = (model.database, model.name)
        if self._is_ours(name) is None:
            return []
        table = self._shown(name)
        ((_, text, *_),) = self.run(f"SHOW CREATE TABLE {self.table(name)}")
        known = tuple(f"{mysql_name(column.name)} " for column in model.columns)
        made = []
        for line in str(text).splitlines()[1:]:
            part = line.strip().removesuffix(",")
            if not line.startswith(" ") or part.startswith(("PRIMARY KEY", *known)):
                continue
            made.append(f"ALTER TABLE {table} ADD {'COLUMN ' * part.startswith('`')}{part}")
        found = self.run(
            "SELECT trigger_schema, trigger_name FROM information_schema.triggers WHERE event_object_schema = %s AND "
            "event_object_table = %s ORDER BY action_order",
            (mysql_database(self._prefix, name[0]), self.names.name(name)),
        )
        for schema, trigger in found:
            sql = f"SHOW CREATE TRIGGER {before_arguments(mysql_table(str(schema), str(trigger)))}"
            made.append(str(self.run(sql)[0][2]))
        return made

    def attempt(self, statement: str) -> str:
        try:
            self._ddl(statement.replace("%", "%%"))
        except ServerError as error:
            return str(error)
        return ""

    def alter(self, alteration: Alteration) -> bool:
        before, after = alteration.before, alteration.after
        clauses = [*self._clauses(alteration), self._comment()]
        name = (before.database, before.name)
        table = self.table(name)
        if name != (after.database, after.name):
            table, new = self._move(name, after)
            clauses.append(f"RENAME TO {new}")
        if not self._is_done:
            self._ddl(f"ALTER TABLE {table} {', '.join(clauses)}")
        return True

    def _clauses(self, alteration: Alteration) -> list[str]:
        before, after, sources = alteration.before, alteration.after, alteration.sources
        kept = {source.old.name for source in sources if source.old is not None}
        clauses = [
            f"DROP COLUMN {self.quoted(column.name)}"
            for column in before.columns
            if column.name not in kept
        ]
        old_key = [name for name, _ in before.primary_key]
        old = {source.column.name: source.old for source in sources}
        renamed_key = [
            one.name if (one := old.get(name)) is not None else "" for name, _ in after.primary_key
        ]
        if old_key and renamed_key != old_key:
            clauses.insert(0, "DROP PRIMARY KEY")
        position = "FIRST"
        keyed = {name for name, _ in after.primary_key}
        for source, constant in zip(sources, alteration.constants, strict=True):
            definition = self._column(source.column, keyed)
            if source.old is None:
                definition += _default(source.column, constant)
                clauses.append(f"ADD COLUMN {definition} {position}")
            elif source.old != source.column or position != self._unmoved(
                before, sources, source.old
            ):
                name = self.quoted(source.old.name)
                clauses.append(f"CHANGE COLUMN {name} {definition} {position}")
            position = f"AFTER {self.quoted(source.column.name)}"
        if after.primary_key and renamed_key != old_key:
            clauses.append(f"ADD PRIMARY KEY ({self._key(after)})")
        return clauses

    def _unmoved(
        self, before: TableModel, sources: Sequence[ColumnSource], old: ColumnModel
    ) -> str:
        """Return a column's position without any clause, after dropped columns are gone."""
        new_names = {one.old.name: one.column.name for one in sources if one.old is not None}
        left = [column.name for column in before.columns if column.name in new_names]
        at = left.index(old.name)
        return f"AFTER {self.quoted(new_names[left[at - 1]])}" if at else "FIRST"

    def definition(self, model: TableModel, table: str) -> str:
        keyed = {name for name, _ in model.primary_key}
        parts = [self._column(column, keyed) for column in model.columns]
        if keyed:
            parts.append(f"PRIMARY KEY ({self._key(model)})")
        return f"CREATE TABLE {table} ({', '.join(parts)}) ENGINE=InnoDB {self._comment()}"

    def _column(self, column: ColumnModel, keyed: set[str]) -> str:
        text = f"{self.quoted(column.name)} {before_arguments(self._target.column(column))}"
        if column.name in keyed or column.nullable is False:
            text += " NOT NULL"
            if column.kind == "timestamp":
                # Without a default, servers before 8.0 let it follow the clock.
                text += " DEFAULT '1971-01-01 00:00:00'"
            return text
        return text + " NULL"

    def _key(self, model: TableModel) -> str:
        return ", ".join(
            self.quoted(name) + (f"({prefix})" if prefix else "")
            for name, prefix in model.primary_key
        )


def _default(column: ColumnModel, value: StoredValue) -> str:
    if value is None or (column.kind == "timestamp" and column.nullable is False):
        return ""
    if column.kind in _NO_DEFAULT:
        if value in ("", b""):
            return ""  # the server's implicit default
        raise CannotFollowError(f"{column.name} cannot have a default on the mirror's server")
    if not value and not isinstance(value, int | float):
        return " DEFAULT ''"  # old servers do not accept x''
    return f" DEFAULT {before_arguments(mysql_value(value))}"
