"""A mirror in ClickHouse, and the sink that writes it.

The mirror's state is one table of documents. A commit is one INSERT of documents, in one block, with the
next version, and therefore atomic. The documents are carried out afterwards, after a crash again if needed:
tables are dropped and renamed (by UUID, so that repeating it changes nothing), and staged rows are moved.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.clickhouse_client import (
    DELETED,
    NUMBER,
    ROW,
    UNKNOWN_TABLE,
    VERSION,
    ClickhouseClient,
    ClickhouseError,
    literal,
    quoted,
    shown,
    where_of,
)
from replica_client.sinks.mirror.clickhouse_rows import DURABLE, ClickhouseRows, qualified
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.stored_names import clickhouse_name, clickhouse_names
from replica_client.sinks.mirror.stored_values import (
    ClickhouseOptions,
    read_clickhouse_options,
    storable_encoder,
)
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.stream.tables.net_changes import TableName

_LOG = logging.getLogger("replica_client.sinks")
OWN_DATABASE: Final = "_replica_client"
_RESERVED: Final = ("system", "information_schema")
_DROP: Final = "SYNC SETTINGS max_table_size_to_drop = 0"


class ClickhouseDatabase(ClickhouseRows):
    """A mirror's ClickHouse server.

    Args:
        client: the connection.
        where: the server, for messages.
        prefix: prefix of database names.
        session: unique name of this writer, with which its query ids begin.
    """

    leases = shared = False

    def __init__(self, client: ClickhouseClient, where: str, prefix: str, session: str) -> None:
        super().__init__(client, prefix + OWN_DATABASE, session)
        self.where, self._prefix = where, prefix
        self.names = clickhouse_names()
        self._begun = False
        self._documents = qualified((self._own, "documents"))
        self.state_table, self.tables_table, self.copies_table = (
            qualified((self._own, name)) for name in ("state", "tables", "copies")
        )
        self._kinds = {
            self.state_table: "state",
            self.tables_table: "tables",
            self.copies_table: "copies",
        }
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        self._begun = False
        self._puts: dict[tuple[str, str, str], str | None] = {}
        self._standing: dict[tuple[str, str], tuple[str, str]] = {}
        self._dropped: list[str] = []

    # Opening.

    def prepare(self) -> None:
        """Create the mirror's own tables, end other writers and finish committed work."""
        self.change(f"CREATE DATABASE IF NOT EXISTS {quoted(self._own)}")
        self.change(
            f"CREATE TABLE IF NOT EXISTS {self._documents} (kind String, database String, name String, "
            "value String, version UInt64, deleted UInt8) ENGINE = ReplacingMergeTree(version, deleted) "
            f"ORDER BY (kind, database, name) SETTINGS {DURABLE}"
        )
        for view, kind in self._kinds.items():
            names = {"state": "name, value", "copies": "database, name, value AS copy"}
            shown_names = names.get(kind, "database, name, value AS definition")
            self.change(
                f"CREATE VIEW IF NOT EXISTS {view} AS SELECT {shown_names} FROM {self._documents} FINAL "
                f"WHERE kind = '{kind}'"
            )
        version = self._newest() + 1
        self._client.insert(
            self._documents,
            ["kind", "name", "value", "version"],
            [f"writer\twriter\t{self._session}\t{version}\n"],
        )
        # Rows that other writers still insert would be taken for rows committed by this writer.
        prefix = literal(query_prefix(self._own, ""))
        mine = literal(query_prefix(self._own, self._session))
        self.change(
            f"KILL QUERY WHERE startsWith(query_id, {prefix}) AND NOT startsWith(query_id, {mine}) SYNC"
        )
        self.version = self._newest()
        plans = self.rows(f"SELECT value FROM {self._documents} FINAL WHERE kind = 'plan'")
        for (plan,) in list(plans):
            self._carry_out(json.loads(plan))
        self._finish_staged()

    def _newest(self, kind: str = "") -> int:
        """Return the highest version of all documents, or of one kind; 0 for none."""
        where = f"kind = '{kind}'" if kind else "1"
        return int(self._one(f"SELECT max(version) FROM {self._documents} WHERE {where}"))

    def _finish_staged(self) -> None:
        """Move committed rows into their tables, and drop uncommitted ones."""
        # The document of a new writer has a version, too, but commits nothing.
        committed = self._newest("commit")
        names = list(
            self.rows(f"SELECT name FROM system.tables WHERE database = {literal(self._own)}")
        )
        for (name,) in names:
            table = qualified((self._own, name))
            if name.startswith("staged_"):
                uuid = name.rpartition("_")[2]
                target = self.name_of(uuid)
                newest = int(self._one(f"SELECT max({VERSION}) FROM {table}"))
                if target is not None and 0 < newest <= committed:
                    self.move(name, target)
            elif not name.startswith(("made_", "scratch_", "pending_", "_replica_client_rebuilt")):
                continue
            self.change(f"DROP TABLE IF EXISTS {table} {_DROP}")

    @property
    def is_made(self) -> bool:
        found = self._one(
            f"SELECT count() FROM system.tables WHERE database = {literal(self._own)} AND name = 'state'"
        )
        return int(found) > 0

    # Transactions.

    @property
    def in_transaction(self) -> bool:
        return self._begun

    def begin(self) -> None:
        self._begun = True

    def rollback(self) -> None:
        """Forget the transaction; see the base.

        Staged rows are removed when the mirror is opened again.
        """
        self._forget_transaction()

    def abort(self) -> None:
        self._client.abort()

    def close(self) -> None:
        self._forget_transaction()
        self._client.close()

    def commit(self) -> None:
        """Commit the transaction; see the base.

        Raises:
            SinkError: another process writes the mirror now.
        """
        plan: dict[str, Any] = {}
        if self._standing or self._dropped:
            plan = {"drop": self._dropped, "tables": [], "views": []}
            for name, stands in self._standing.items():
                plan["tables"].append([self.uuid(stands), *name])
                if stands[0] != self._own:
                    plan["views"] += self._views_of(stands)
        self._puts["plan", "", ""] = json.dumps(plan) if plan else None
        self.version += 1
        pending = qualified((self._own, f"pending_{self._session}"))
        columns = ["kind", "database", "name", "value", "version", "deleted"]
        lines = [
            "\t".join(
                (kind, *(_escaped(one) for one in (database, name, value or ""))),
            )
            + f"\t{self.version}\t{int(value is None)}\n"
            for (kind, database, name), value in self._puts.items()
        ]
        lines.append(f"commit\t\t\t{self._session}\t{self.version}\t0\n")
        self.change(f"CREATE TABLE IF NOT EXISTS {pending} AS {self._documents} ENGINE = Memory")
        self.change(f"TRUNCATE TABLE {pending}")
        self._client.insert(pending, columns, lines)
        names = ", ".join(columns)
        self.change(
            f"INSERT INTO {self._documents} ({names}) SELECT {names} FROM {pending} WHERE "
            f"(SELECT argMax(value, version) FROM {self._documents} WHERE kind = 'writer') = "
            f"{literal(self._session)} SETTINGS max_threads = 1, max_insert_threads = 1, async_insert = 0"
        )
        if not self._one(
            f"SELECT count() FROM {self._documents} WHERE kind = 'commit' AND "
            f"version = {self.version} AND value = {literal(self._session)}"
        ):
            raise SinkError(f"{self.where}: another process writes this mirror; stop one of them")
        if plan:
            self._carry_out(plan)
        self.move_staged(renamed=bool(plan))
        if plan:
            self.forget_staging()
        self._forget_transaction()

    def _carry_out(self, plan: dict[str, Any]) -> None:
        """Drop and rename tables, unless that is already done."""
        for uuid in plan["drop"]:
            if (name := self.name_of(uuid)) is not None:
                self.change(f"DROP TABLE {qualified(name)} {_DROP}")
        moves = [
            (stands, (database, name))
            for uuid, database, name in plan["tables"]
            if (stands := self.name_of(uuid)) is not None and stands != (database, name)
        ]
        # Two tables may swap their names.
        waiting = []
        for number, (stands, name) in enumerate(moves):
            if stands[0] != self._own:
                between = (self._own, f"renamed_{number}")
                self._rename(stands, between)
                waiting.append((between, name))
            else:
                waiting.append((stands, name))
        for stands, name in waiting:
            self._rename(stands, name)
        for view, query in plan.get("views", ()):
            # A view follows the table that is renamed; its query reads the table of that name.
            error = self.attempt(f"ALTER TABLE {view} MODIFY QUERY {query}")
            if error:
                _LOG.warning(
                    "%s: %s stays on a table that was renamed: %s", self.where, view, error
                )

    def _views_of(self, name: tuple[str, str]) -> list[list[str]]:
        """Return the materialized views of a table and their queries."""
        database, table = map(literal, name)
        found = self.rows(
            "SELECT database, name, as_select FROM system.tables WHERE (database, name) IN (SELECT "
            "arrayJoin(arrayZip(dependencies_database, dependencies_table)) FROM system.tables "
            f"WHERE database = {database} AND name = {table})"
        )
        return [[qualified((own, view)), query] for own, view, query in found]

    def _rename(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        self.change(f"RENAME TABLE {qualified(old)} TO {qualified(new)}")

    # The mirror's own texts.

    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        *key, value = values
        self._puts[self._key(table, key)] = value

    def take(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        self._puts[self._key(table, values)] = None

    def _key(self, table: str, key: Sequence[str]) -> tuple[str, str, str]:
        database = key[0] if len(key) > 1 else ""
        return self._kinds[table], database, key[-1]

    # Names and definitions.

    def database(self, name: str) -> str:
        """Return the mirror's database for a database of the source."""
        stored = clickhouse_name(self._prefix + name)
        if stored.lower() in _RESERVED or stored.endswith(OWN_DATABASE):
            stored = f"%{ord(stored[0]):02X}{stored[1:]}"
        return stored

    def _name(self, name: TableName) -> tuple[str, str]:
        return self.database(name[0]), self.names.name(name)

    def table(self, name: TableName) -> str:
        stored = self._name(name)
        stands = self._standing.get(stored, stored)
        table = qualified(stands)
        self._stored[table] = stands
        return table

    def definition(self, model: TableModel, table: str) -> str:
        return self.statement(model, table)

    def create(self, model: TableModel) -> None:
        """Create a table under a temporary name, which the commit replaces; see the base.

        Raises:
            SinkError: a table of that name exists and is not the mirror's.
        """
        name = self._name((model.database, model.name))
        there = None if name in self._standing else self.uuid(name)
        if there is not None and there not in self._dropped:
            raise SinkError(
                f"{self.where}: there is a table {qualified(name)} already, which is not the mirror's; "
                "drop or rename it, or choose another database_prefix"
            )
        self.change(f"CREATE DATABASE IF NOT EXISTS {quoted(name[0])}")
        self._standing[name] = self._made(model)

    def _made(self, model: TableModel) -> tuple[str, str]:
        self.version += 1
        made = (self._own, f"made_{self._session}_{self.version}")
        self.change(self.statement(model, qualified(made)))
        return made

    def create_rebuilt(self, model: TableModel) -> None:
        self.change(f"DROP TABLE IF EXISTS {self.rebuilt} {_DROP}")
        self.change(self.statement(model, self.rebuilt))

    def drop(self, name: TableName) -> None:
        """Mark a table as dropped; the commit drops it; see the base."""
        stored = self._name(name)
        stands = self._standing.pop(stored, stored)
        if (uuid := self.uuid(stands)) is not None and uuid not in self._dropped:
            self._dropped.append(uuid)

    def truncate(self, model: TableModel) -> None:
        """Replace a table by an empty one; see the base."""
        name = (model.database, model.name)
        objects = self.objects(model)
        self.drop(name)
        self._standing[self._name(name)] = self._made(model)
        self.make_objects(name, objects)

    def rename(self, old: TableName, new: TableModel) -> None:
        stored = self._name(old)
        stands = self._standing.pop(stored, stored)
        self.names.forget(old)
        self.change(f"CREATE DATABASE IF NOT EXISTS {quoted(self.database(new.database))}")
        self._standing[self._name((new.database, new.name))] = stands

    def replace(self, rebuilt: str, new: TableModel) -> None:
        self.version += 1
        made = (self._own, f"made_{self._session}_{self.version}")
        self.change(f"RENAME TABLE {rebuilt} TO {qualified(made)}")
        name = self._name((new.database, new.name))
        self._standing[name] = made
        self.change(f"CREATE DATABASE IF NOT EXISTS {quoted(name[0])}")

    def has(self, stored: str) -> bool:
        return False

    # Users' objects: views refer to a table by name, grants too.

    def objects(self, model: TableModel) -> list[str]:
        """Return clauses of ALTER TABLE for columns, indexes and the comment; see the base."""
        name = self._name((model.database, model.name))
        database, table = map(literal, self._standing.get(name, name))
        of = f"WHERE database = {database} AND table = {table}"
        known = {VERSION, DELETED, ROW, NUMBER, *(column.name for column in model.columns)}
        made = []
        for column, kind, default_kind, default in self.rows(
            f"SELECT name, type, default_kind, default_expression FROM system.columns {of} ORDER BY position"
        ):
            if column not in known:
                made.append(f"ADD COLUMN {quoted(column)} {kind} {default_kind} {default}".rstrip())
                if default_kind in ("", "DEFAULT"):
                    self.tell_extra_column(model, column)
        made += [
            f"ADD INDEX {quoted(index)} {expression} TYPE {kind} GRANULARITY {size}"
            for index, expression, kind, size in self.rows(
                f"SELECT name, expr, type_full, granularity FROM system.data_skipping_indices {of}"
            )
        ]
        made += [
            f"MODIFY COMMENT {literal(comment)}"
            for (comment,) in self.rows(
                f"SELECT comment FROM system.tables WHERE database = {database} AND name = {table} AND comment != ''"
            )
        ]
        return made

    def make_objects(self, name: TableName, statements: Sequence[str]) -> None:
        table = self.table(name)
        super().make_objects(name, [f"ALTER TABLE {table} {one}" for one in statements])

    def attempt(self, statement: str) -> str:
        try:
            self.change(statement)
        except ClickhouseError as error:
            return str(error)
        return ""

    def shown(self, column: ColumnModel) -> str:
        return shown(column, self.quoted(column.name))

    def years(self) -> tuple[int, int]:
        """Return the first and the last year that this server can store."""
        for first, last in ((1, 9999), (1900, 2299)):
            ends = [f"{first:04d}-01-01", f"{last:04d}-12-31"]
            tests = [f"toString(toDate32('{end}')) = '{end}'" for end in ends]
            tests += [
                f"toString(toDateTime64('{end} 23:59:59.999999', 6, 'UTC')) = '{end} 23:59:59.999999'"
                for end in ends
            ]
            if self._one(f"SELECT {' AND '.join(tests)}"):
                return first, last
        return 1970, 2105


def query_prefix(own: str, session: str) -> str:
    """Return the prefix of a writer's query ids."""
    return f"replica_client {own} {session}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


# Not enough privileges, authentication failed, read-only.
_OF_ALL: Final = frozenset((497, 516, 164))


def make(table: Mapping[str, object]) -> ClickhouseSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    return ClickhouseSink(read_clickhouse_options(table))


class ClickhouseSink(TableMirrorSink):
    """The sink ``clickhouse``; see the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: ClickhouseOptions) -> None:
        self._options = options
        self._years = (1900, 2299)
        super().__init__(
            where_of(options),
            options,
        )

    async def probe(self) -> None:
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        with self._errors():
            client = ClickhouseClient(self._options, "replica_client probe ")
            try:
                client.execute("SELECT 1")
            finally:
                client.close()

    def _database(self) -> MirrorDatabase:
        session = secrets.token_hex(8)
        own = self._options.database_prefix + OWN_DATABASE
        client = ClickhouseClient(self._options, query_prefix(own, session))
        database = ClickhouseDatabase(client, self._where, self._options.database_prefix, session)
        try:
            self._years = database.years()
        except BaseException:
            client.close()
            raise
        return database

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder:
        return storable_encoder(
            column,
            "ClickHouse",
            self._where,
            nulls=self._options.unstorable_values == "null",
            zero_character=True,
            replaced=self._replaced,
            years=self._years,
        )

    def _lacks_table(self, error: Exception) -> bool:
        return (
            isinstance(error, ClickhouseError)
            and error.code == UNKNOWN_TABLE
            and OWN_DATABASE not in str(error)
        )

    def _concerns_all(self, error: BaseException | None) -> bool:
        return isinstance(error, ClickhouseError) and error.code in _OF_ALL

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ClickhouseError as error:
            raise SinkError(f"{self._where}: {error}", retriable=error.passing) from error
