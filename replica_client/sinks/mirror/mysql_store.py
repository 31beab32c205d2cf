"""A MySQL or MariaDB server that holds tables of the source, and how far they are, in one transaction.

A table has the source's database and name, the database behind a prefix where one is given. The
database ``replica_client`` has three tables of the mirror's own: ``mirror_state`` (the position and what
belongs to it), ``mirror_tables`` (the definitions of the mirrored tables as JSON) and ``mirror_copies``
(first copies).

DDL ends a transaction there. Each statement that makes or alters a table also sets the table's comment
to the place of the source's statement, so that one that was done already is not done again.
"""

# Over 500 lines: one session on one server, whose statements share its transaction.

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from replica_client.errors import (
    PositionFormatError,
    SchemaError,
    ServerError,
    SinkError,
    TransportError,
)
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.growing import GrowingKeys
from replica_client.position.stores.ownership import (
    BEAT,
    LEASE,
    OWNED_BY,
    OWNER,
    POSITION,
    Claim,
    Lease,
    Owner,
    fenced,
    is_checkpoint,
    owners_of,
    unknown_owner,
)
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.quoting import before_arguments, mysql_name, mysql_table, mysql_text
from replica_client.sinks.mirror.mysql_values import (
    BYTES,
    GEOMETRIES,
    TargetServer,
    key_value,
    placeholder,
)
from replica_client.sinks.mirror.stored_names import (
    STORED_AS,
    StoredNames,
    mysql_database,
    mysql_names,
)
from replica_client.tables.net_changes import DivergedError, NetChanges, Values
from replica_client.tables.table_copy import TableCopy, TableName
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import SourceConnection
from replica_client.wire.server_errors import TRANSIENT_ERRORS

_MODE = (
    "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION,"
    "ERROR_FOR_DIVISION_BY_ZERO"
)
_SESSION = (
    # Its mode is the mirror's own: what backslashes and double quotes mean depends on it.
    f"SET SESSION sql_mode = '{_MODE}', time_zone = '+00:00', foreign_key_checks = 0, "
    "unique_checks = 1, autocommit = 1"
)
_ASKED = ("sql_require_primary_key", "sql_generate_invisible_primary_key")
_MOST_ROWS = 500
_DOCUMENTS = (("mirror_tables", "definition"), ("mirror_copies", "copy"))
_JOINED = 16
"""Different rows of a table without key from which on one join is cheaper than a search for each."""
_DUPLICATE = 1062
# Lock wait, deadlock, full disk or table, read-only, shutdown, too many connections.
_MAY_PASS = frozenset((1205, 1213, 1021, 1114, 3675, 1290, 1836, 1053, 1040, 1203, 1135, 1037))


_DENIED = frozenset((1044, 1142, 1227))


class _NotAllowedError(Exception):
    """The account may not make temporary tables."""


class MysqlStore:
    """An open session.

    Args:
        connection: to the mirror's server.
        target: what it has.
        prefix: of database names.
        state: database of the mirror's own tables.
        names: those of another session of the same mirror; None: they are read.
        claim: the identity to write as; None: there is none, and the mirror is this one's alone.

    Attributes:
        target: as given.
        names: how the tables are called there.
        tables: the mirrored tables, under the source's names.
        copies: first copies that the stream has not passed.
        mark: what the comments of this mirror's tables begin with.
    """

    def __init__(
        self,
        connection: SourceConnection,
        target: TargetServer,
        *,
        prefix: str,
        state: str,
        names: StoredNames | None = None,
        claim: Claim | None = None,
    ) -> None:
        self._claim = claim
        self._key, self._token = "owner", secrets.token_hex(8)
        self._own_prefix = ""
        self._foreign: dict[TableName, Owner] = {}
        self._connection = connection
        self.target = target
        self._prefix = prefix
        self._state_name = state
        self._state_database = mysql_name(state)
        self.names = names or mysql_names(ignores_case=target.ignores_case)
        self.mark = f"replica_client {state} "
        self._state = GrowingKeys()
        self._in_transaction = False
        self._packet = 1 << 20
        self._unsaved: dict[TableName, TableModel | None] = {}
        self.tables: dict[TableName, TableModel] = {}
        self.copies: dict[TableName, TableCopy] = {}

    @classmethod
    async def open(
        cls,
        options: ConnectOptions,
        *,
        prefix: str,
        state: str,
        names: StoredNames | None = None,
        claim: Claim | None = None,
    ) -> MysqlStore:
        """Connect, and ask what the server has."""
        connection = await SourceConnection.open(options)
        try:
            await connection.query(_SESSION)
            for setting in _ASKED:
                # Some servers lack it, some accounts may not set it: what it would refuse is one table's error then.
                with contextlib.suppress(ServerError):
                    await connection.query(f"SET SESSION {setting} = 0")
            charsets = await connection.query(
                "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS", columns=1
            )
            collations = await connection.query(
                "SELECT COLLATION_NAME FROM information_schema.COLLATIONS", columns=1
            )
            rows = await connection.query(
                "SELECT @@max_allowed_packet, @@lower_case_table_names, @@SESSION.sql_mode",
                columns=3,
                rows=1,
            )
            if "NO_BACKSLASH_ESCAPES" in str(rows[0][2]):
                raise SinkError(
                    f"{options.address} keeps sql_mode = {rows[0][2]} for the mirror's session; connect to "
                    "it without what is between"
                )
        except BaseException:
            await connection.close()
            raise
        target = TargetServer(
            connection.server.is_mariadb,
            connection.server.version,
            frozenset(str(row[0]) for row in charsets),
            frozenset(str(row[0]) for row in collations),
            ignores_case=int(rows[0][1]) != 0,
        )
        store = cls(connection, target, prefix=prefix, state=state, names=names, claim=claim)
        store._packet = int(rows[0][0])
        return store

    async def prepare(self) -> Checkpoint | None:
        """Make the mirror's own tables, take the mirror over, and read how far it is.

        Raises:
            SinkError: the database holds something else.
        """
        run, own = self.run, self._state_database
        await run(f"CREATE DATABASE IF NOT EXISTS {own}")
        text = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
        await run(
            f"CREATE TABLE IF NOT EXISTS {own}.mirror_state (name VARCHAR(64) {text} PRIMARY KEY, "
            f"value LONGTEXT {text}) ENGINE=InnoDB"
        )
        await run(
            f"CREATE TABLE IF NOT EXISTS {own}.mirror_tables (database_name VARCHAR(64) {text}, "
            f"name VARCHAR(64) {text}, definition LONGTEXT {text}, PRIMARY KEY (database_name, name)) "
            "ENGINE=InnoDB"
        )
        await run(
            f"CREATE TABLE IF NOT EXISTS {own}.mirror_copies (database_name VARCHAR(64) {text}, "
            f"name VARCHAR(64) {text}, copy LONGTEXT {text}, PRIMARY KEY (database_name, name)) "
            "ENGINE=InnoDB"
        )
        try:
            if self._claim is None:
                await self._put(self._key, self._token)
            else:
                await self._claim_identity(self._claim)
            return await self._read()
        except (SchemaError, PositionFormatError, ValueError) as error:
            raise SinkError(f"{own} is no mirror of this release: {error}") from error

    async def owners(self) -> list[Owner]:
        """Return the identities that write there, for readers."""
        try:
            return owners_of(await self._records()) if await self._is_made() else []
        except ValueError as error:
            raise SinkError(
                f"{self._state_database} is no mirror of this release: {error}"
            ) from error

    async def _is_made(self) -> bool:
        return bool(
            await self.run(
                "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'mirror_state'",
                (self._state_name,),
            )
        )

    async def saved(self) -> Checkpoint | None:
        """Return the position that is saved, for readers: nothing is made, taken over or changed."""
        try:
            if not await self._is_made():
                return None
            records = await self._records()
            if self._claim is not None:
                self._own_prefix = f"{self._claim.resolve(owners_of(records)).id}/"
                if f"{self._own_prefix}{POSITION}" not in records and POSITION in records:
                    self._own_prefix = ""
            return self._checkpoint(records)
        except (PositionFormatError, ValueError) as error:
            raise SinkError(
                f"{self._state_database} is no mirror of this release: {error}"
            ) from error

    async def _records(self) -> dict[str, str]:
        return {
            str(name): str(value)
            for name, value in await self.run(
                f"SELECT name, value FROM {self._state_database}.mirror_state"
            )
        }

    async def _documents(self, table: str, column: str) -> list[tuple[TableName, dict[str, Any]]]:
        rows = await self.run(
            f"SELECT database_name, name, {column} FROM {self._state_database}.{table}"
        )
        return [((str(one[0]), str(one[1])), json.loads(one[2])) for one in rows]

    async def _claim_identity(self, claim: Claim) -> None:
        """Take the lease of the identity in one transaction, and make it known."""
        lock = f"replica_client.{self._state_name}"[:64]
        ((got,),) = await self.run("SELECT GET_LOCK(%s, 10)", (lock,))
        if got != 1:
            raise SinkError("another process opens this mirror", retriable=True)
        try:
            records = await self._records()
            owner = claim.resolve(owners_of(records))
            ((session,),) = await self.run("SELECT CONNECTION_ID()")
            ended = []
            for number in (owner.id, claim.takes_over):
                lease = Lease.from_text(records.get(f"{LEASE}{number}"))
                taken = claim.take(lease, records.get(f"{BEAT}{number}", ""), str(session))
                if lease is not None and lease.session not in ("", str(session)):
                    ended.append(lease.session)
                if number == owner.id:
                    self._key, self._token = f"{LEASE}{number}", taken.to_text()
            for one in ended:
                await self._end_session(one)
            self._own_prefix = f"{owner.id}/"
            await self.run("START TRANSACTION")
            await self._rekey(claim, owner, records)
            await self._put(self._key, self._token)
            await self._put(f"{OWNER}{owner.id}", json.dumps(owner.to_json()))
            await self.run("COMMIT")
        finally:
            await self.run("DO RELEASE_LOCK(%s)", (lock,))

    async def _end_session(self, session: str) -> None:
        """End the session of a process that lost its lease, with its transaction and its locks."""
        # A number is given again: only a session of this user is ended.
        found = await self.run(
            "SELECT 1 FROM information_schema.processlist WHERE id = %s AND "
            "user = SUBSTRING_INDEX(USER(), '@', 1)",
            (int(session),),
        )
        if found:
            with contextlib.suppress(ServerError):  # it ended meanwhile
                await self.run(f"KILL {int(session)}")

    async def _rekey(self, claim: Claim, owner: Owner, records: Mapping[str, str]) -> None:
        """Take over what an older release left, or what an operator gave to this identity."""
        own = self._state_database
        if claim.takes_over and f"{OWNER}{claim.takes_over}" in records:
            old = f"{claim.takes_over}/"
            for name in (OWNER, LEASE, BEAT):
                await self._take(f"{name}{claim.takes_over}")
        elif POSITION in records and await self._fits(claim):
            old = ""
            # Who still runs as an older release sees that another one writes.
            await self._put("owner", secrets.token_hex(8))
        else:
            return
        moved = {
            name: value
            for name, value in records.items()
            if name.startswith(old) and is_checkpoint(name.removeprefix(old))
        }
        if f"{self._own_prefix}{POSITION}" not in records:
            for name, value in moved.items():
                await self._put(f"{self._own_prefix}{name.removeprefix(old)}", value)
        for name in moved:
            await self._take(name)
        for table, column in _DOCUMENTS:
            for key, members in await self._documents(table, column):
                if members.get(OWNED_BY, "") == old.removesuffix("/"):
                    members[OWNED_BY] = owner.id
                    await self.run(
                        f"REPLACE INTO {before_arguments(own)}.{table} VALUES (%s, %s, %s)",
                        (*key, json.dumps(members)),
                    )

    async def _fits(self, claim: Claim) -> bool:
        """Return whether what an older release left can be this identity's."""
        names = [
            name
            for table, column in _DOCUMENTS
            for name, members in await self._documents(table, column)
            if OWNED_BY not in members
        ]
        return not names or any(map(claim.fits, names))

    async def _read(self) -> Checkpoint | None:
        records = await self._records()
        owners = {one.id: one for one in owners_of(records)}
        mine = self._own_prefix.removesuffix("/")
        for table, column in _DOCUMENTS:
            for name, members in await self._documents(table, column):
                owner, stored = members.pop(OWNED_BY, ""), members.pop(STORED_AS, None)
                if stored is not None:
                    self.names.set(name, str(stored))
                if owner != mine:
                    if self._claim is not None:
                        self._foreign[name] = owners.get(owner) or unknown_owner(owner)
                elif column == "copy":
                    self.copies[name] = TableCopy.from_json(*name, members)
                else:
                    self.tables[name] = TableModel.from_json(*name, members)
        for one in (*self.tables, *self.copies, *self._foreign):
            self.names.name(one)
        if self._claim is not None:
            self._claim.check_tables(self._foreign)
        return self._checkpoint(records)

    def _checkpoint(self, records: Mapping[str, str]) -> Checkpoint | None:
        prefix = self._own_prefix
        mine = {
            name.removeprefix(prefix): text
            for name, text in records.items()
            if name.startswith(prefix) and is_checkpoint(name.removeprefix(prefix))
        }
        if POSITION not in mine:
            return None
        state = self._state.read(mine.get(GrowingKeys.KEY), mine)
        return Checkpoint(Position.from_json(mine[POSITION]), state)

    async def check_owner(self, name: TableName) -> None:
        """Refuse a table of another owner, also one that it made since this mirror was opened.

        Raises:
            ForeignOwnerError: it is another one's.
        """
        if self._claim is None or name in self.tables or name in self.copies:
            return
        own = before_arguments(self._state_database)
        for table, column in _DOCUMENTS:
            for (text,) in await self.run(
                f"SELECT {column} FROM {own}.{table} WHERE database_name = %s AND name = %s", name
            ):
                owner = json.loads(text).get(OWNED_BY, "")
                if owner != self._own_prefix.removesuffix("/"):
                    owners = {one.id: one for one in owners_of(await self._records())}
                    other = owners.get(owner) or unknown_owner(owner)
                    raise self._claim.foreign(".".join(name), other)

    async def write_beat(self, other: MysqlStore, text: str) -> None:
        """Write a beat in a session that writes nothing else."""
        await other._put(self._key.replace(LEASE, BEAT, 1), text)

    async def give_back(self) -> None:
        """Give the lease back, where it is still this process's."""
        lease = Lease.from_text(self._token) if self._own_prefix else None
        if lease is None:
            return
        if self._in_transaction:
            await self.run("ROLLBACK")
            self._in_transaction = False
        await self.begin()
        await self._put(self._key, replace(lease, holder="", session="").to_text())
        await self.run("COMMIT")
        self._in_transaction = False

    async def run(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement."""
        return await self._connection.query(sql, args)

    async def _get(self, name: str, *, lock: bool = False) -> str | None:
        rows = await self.run(
            f"SELECT value FROM {before_arguments(self._state_database)}.mirror_state WHERE name = %s"
            + (" FOR UPDATE" if lock else ""),
            (name,),
        )
        return str(rows[0][0]) if rows else None

    async def _put(self, name: str, value: str) -> None:
        await self.run(
            f"REPLACE INTO {before_arguments(self._state_database)}.mirror_state VALUES (%s, %s)",
            (name, value),
        )

    async def _take(self, name: str) -> None:
        await self.run(
            f"DELETE FROM {before_arguments(self._state_database)}.mirror_state WHERE name = %s",
            (name,),
        )

    async def begin(self) -> None:
        """Begin a transaction where none is.

        Raises:
            SinkError: another process took the mirror over.
        """
        if self._in_transaction:
            return
        await self.run("START TRANSACTION")
        self._in_transaction = True
        if await self._get(self._key, lock=True) != self._token:
            if self._claim is not None:
                raise fenced(f"mirror {self._state_name}")
            raise SinkError("another process writes this mirror; stop one of them")

    async def commit(self, checkpoint: Checkpoint) -> None:
        """Commit rows and position together."""
        await self.begin()
        prefix = self._own_prefix
        await self._put(f"{prefix}{POSITION}", json.dumps(checkpoint.position.to_json()))
        plan = self._state.plan(checkpoint.state)
        for key, value in plan.put.items():
            await self._put(f"{prefix}{key}", value)
        for key in plan.gone:
            await self._take(f"{prefix}{key}")
        passed = [one.name for one in self.copies.values() if one.is_passed(checkpoint.position)]
        for name in passed:
            await self.run(
                f"DELETE FROM {before_arguments(self._state_database)}.mirror_copies "
                "WHERE database_name = %s AND name = %s",
                name,
            )
            del self.copies[name]
        await self._end_transaction()
        self._state.saved(plan)

    async def _end_transaction(self) -> None:
        await self._save_definitions()
        await self.run("COMMIT")
        self._in_transaction = False

    async def close(self) -> None:
        """Close; what is not committed goes."""
        await self._connection.close()

    # Tables.

    def table(self, name: TableName) -> str:
        """A table's name in SQL."""
        return mysql_table(mysql_database(self._prefix, name[0]), self.names.name(name))

    def comment(self, position: str) -> str:
        """The comment of a table that was made or altered at a place of the source, in SQL."""
        return mysql_text(self.mark + position, backslash_escapes=True)

    async def ddl(self, sql: str) -> None:
        """Run DDL; what was written before must be committed.

        Raises:
            SinkError: it is not.
        """
        if self._in_transaction:
            raise SinkError(
                "a schema change was written before what is in front of it was committed"
            )
        await self.run(sql)

    async def create_database(self, database: str) -> None:
        """Make a database where it is not there."""
        name = mysql_name(mysql_database(self._prefix, database))
        await self.ddl(f"CREATE DATABASE IF NOT EXISTS {name}")

    async def steps_done(self, position: str) -> int:
        """How many changes of the statement at a place were done; those that leave a comment."""
        position = self.mark + position
        rows = await self.run(
            "SELECT table_comment FROM information_schema.tables WHERE table_comment LIKE %s",
            (position.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "/%",),
        )
        return max((int(str(row[0]).rpartition("/")[2]) + 1 for row in rows), default=0)

    def keep(self, model: TableModel, old: TableName | None = None) -> None:
        """Save a table's definition with the next commit."""
        name = (model.database, model.name)
        if old is not None and old != name:
            self.forget(old)
        self.tables[name] = self._unsaved[name] = model

    def forget(self, name: TableName) -> None:
        """Remove a table's definition with the next commit."""
        self.names.forget(name)
        self._forget_definition(name)

    def _forget_definition(self, name: TableName) -> None:
        self.tables.pop(name, None)
        self._unsaved[name] = None

    async def _save_definitions(self) -> None:
        table = f"{before_arguments(self._state_database)}.mirror_tables"
        for name, model in self._unsaved.items():
            if model is None:
                await self.run(f"DELETE FROM {table} WHERE database_name = %s AND name = %s", name)
            else:
                definition = json.dumps(self._with_name(name, model.to_json()))
                await self.run(f"REPLACE INTO {table} VALUES (%s, %s, %s)", (*name, definition))
        self._unsaved.clear()

    def _with_name(self, name: TableName, value: dict[str, Any]) -> dict[str, Any]:
        stored, owner = self.names.kept(name), self._own_prefix.removesuffix("/")
        of_name = {} if stored is None else {STORED_AS: stored}
        return {**value, **of_name, **({OWNED_BY: owner} if owner else {})}

    async def is_ours(self, name: TableName) -> bool | None:
        """Whether a table is the mirror's; None when there is none.

        The mirror's tables have its comment.
        """
        wanted = (mysql_database(self._prefix, name[0]), self.names.name(name))
        rows = await self.run(
            "SELECT table_comment, table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema = %s AND table_name = %s",
            wanted,
        )
        if not self.target.ignores_case:
            # Listings of old servers compare names without case.
            rows = [row for row in rows if (str(row[1]), str(row[2])) == wanted]
        return str(rows[0][0]).startswith(self.mark) if rows else None

    async def is_empty(self, name: TableName) -> bool:
        """Whether a table has no rows."""
        return not await self.run(f"SELECT 1 FROM {self.table(name)} LIMIT 1")

    # First copies.

    async def want_copies(self, names: Iterable[TableName]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        await self.begin()
        for name in names:
            await self.check_owner(name)
            await self._note(TableCopy(*name))
        await self._end_transaction()

    async def forget_tables(self, names: Iterable[TableName]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.ForgettingSink`."""
        await self.begin()
        own = before_arguments(self._state_database)
        for name in names:
            self.tables.pop(name, None)
            self._unsaved[name] = None
            await self.run(
                f"DELETE FROM {own}.mirror_copies WHERE database_name = %s AND name = %s", name
            )
            self.copies.pop(name, None)
        await self._end_transaction()

    async def save_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        await self.begin()
        if copy.until is not None and copy.definition is not None:
            self.keep(copy.definition)
        elif copy.name in self.tables:
            self._forget_definition(copy.name)
        await self._note(copy)
        await self._end_transaction()

    async def copy_rows(self, model: TableModel, rows: Iterable[Values]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        await self.begin()
        table = before_arguments(self.table((model.database, model.name)))
        await self._insert(table, model, rows)

    async def _note(self, copy: TableCopy) -> None:
        await self.run(
            f"REPLACE INTO {before_arguments(self._state_database)}.mirror_copies VALUES (%s, %s, %s)",
            (*copy.name, json.dumps(self._with_name(copy.name, copy.to_json()))),
        )
        self.copies[copy.name] = copy

    # Rows.

    async def apply(self, changes: NetChanges) -> None:
        """Apply net changes.

        Raises:
            DivergedError: the table is not what it should be.
        """
        try:
            if changes.keyed:
                await self._apply_keyed(changes)
            else:
                await self._apply_keyless(changes)
        except ServerError as error:
            if error.errno == _DUPLICATE:
                raise DivergedError(changes.name, "a row is added that is there") from error
            raise

    async def _apply_keyed(self, changes: NetChanges) -> None:
        model, table = changes.model, before_arguments(self.table(changes.table))
        names = [before_arguments(mysql_name(column.name)) for column in model.columns]
        placeholders = [placeholder(column) for column in model.columns]
        keys = [names[at] for at in changes.key]
        left = f"({', '.join(keys)})" if len(keys) > 1 else keys[0]
        one = ", ".join(placeholders[at] for at in changes.key)
        if len(keys) > 1:
            one = f"({one})"
        await self._remove_and_put(changes, table, names, placeholders, left, one)
        where = " AND ".join(f"{names[at]} = {placeholders[at]}" for at in changes.key)
        for columns, patches in changes.patch_groups():
            sets = ", ".join(f"{names[at]} = {placeholders[at]}" for at in columns)
            for values, key in patches:
                await self.run(
                    f"UPDATE {table} SET {sets} WHERE {where}",
                    (*values, *_compared(model, changes.key, key)),
                )

    async def _remove_and_put(
        self,
        changes: NetChanges,
        table: str,
        names: list[str],
        placeholders: list[str],
        left: str,
        one: str,
    ) -> None:
        """Delete rows, and add others; a row in another one's place keeps columns of the operator."""
        model, key = changes.model, changes.key
        removed, added = changes.by_key.removed, changes.by_key.added
        same = [values for values in removed if values in added]
        compared = [_compared(model, key, values) for values in same]
        if changes.strict:
            for group in self._chunks(compared):
                found = await self.run(
                    f"SELECT COUNT(*) FROM {table} WHERE {left} IN ({', '.join([one] * len(group))})",
                    _flat(group),
                )
                self._check_count(changes, len(group), int(found[0][0]))
        gone = [_compared(model, key, values) for values in removed if values not in added]
        for group in self._chunks(gone):
            await self.run(
                f"DELETE FROM {table} WHERE {left} IN ({', '.join([one] * len(group))})",
                _flat(group),
            )
            await self._check(changes, len(group))
        known = set(removed)
        new = [row for values, row in added.items() if values not in known]
        put = [row for values, row in added.items() if values in known]
        if not changes.strict:
            put, new = [*put, *new], []
        await self._insert(table, model, new)
        await self._insert(table, model, put, replace=True)

    async def _apply_keyless(self, changes: NetChanges) -> None:
        model, table = changes.model, before_arguments(self.table(changes.table))
        fewer = list(changes.counts.fewer())
        if len(fewer) >= _JOINED and self.target.version >= (8,):
            with contextlib.suppress(_NotAllowedError):
                await self._take_many(changes, table, fewer)
                fewer = []
        matches = [self.target.match(column) for column in model.columns]
        where = " AND ".join(condition for condition, _ in matches)
        for row, count in fewer:
            values = [
                value if value is None or convert is None else convert(value)
                for value, (_, convert) in zip(row, matches, strict=True)
            ]
            await self.run(f"DELETE FROM {table} WHERE {where} LIMIT {count}", values)
            await self._check(changes, count)
        await self._insert(table, model, changes.counts.more())

    async def _take_many(
        self, changes: NetChanges, table: str, fewer: list[tuple[Values, int]]
    ) -> None:
        """Delete many rows of a table without key by one join on a digest.

        The digest of both sides is the server's. Equal rows cannot be told apart in a join: all of them
        go, and those that stay are put back.
        """
        model, own = changes.model, before_arguments(self._state_database)
        digest = _digest(model)
        rows, wanted, numbers = f"{own}.fewer_rows", f"{own}.fewer", f"{own}.fewer_numbers"
        # MySQL wants a default database for a DELETE of several tables, though all are qualified.
        await self._plain(f"USE {own}")
        try:
            await self._plain(f"CREATE TEMPORARY TABLE {rows} LIKE {table}")
        except ServerError as error:
            if error.errno in _DENIED:
                raise _NotAllowedError from error
            raise
        await self._insert(rows, model, (row for row, count in fewer for _ in range(count)))
        await self._plain(
            f"CREATE TEMPORARY TABLE {wanted} (row_digest CHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin "
            "PRIMARY KEY, row_count INT NOT NULL, row_kept INT NOT NULL)"
        )
        await self._plain(
            f"INSERT INTO {wanted} SELECT {digest}, COUNT(*), 0 FROM {rows} GROUP BY 1"
        )
        found = await self._plain(
            f"SELECT s.row_digest, s.row_count, COUNT(*) FROM (SELECT {digest} AS d FROM {table}) t "
            f"STRAIGHT_JOIN {wanted} s ON s.row_digest = t.d GROUP BY s.row_digest, s.row_count"
        )
        done = sum(min(int(n), int(count)) for _, n, count in found)
        self._check_count(changes, sum(count for _, count in fewer), done)
        await self._plain(
            f"DELETE {table} FROM {table} STRAIGHT_JOIN {wanted} ON {wanted}.row_digest = {_digest(model, table)}"
        )
        kept = [(str(d), int(count) - int(n)) for d, n, count in found if int(count) > int(n)]
        if kept:
            await self._put_back(model, table, (rows, wanted, numbers), digest, kept)
        for one in (rows, wanted, numbers):
            await self._plain(f"DROP TEMPORARY TABLE IF EXISTS {one}")

    async def _put_back(
        self,
        model: TableModel,
        table: str,
        staged: tuple[str, str, str],
        digest: str,
        kept: list[tuple[str, int]],
    ) -> None:
        """Add rows by digest, each so many times."""
        rows, wanted, numbers = staged
        names = ", ".join(before_arguments(mysql_name(column.name)) for column in model.columns)
        await self._plain(f"CREATE TEMPORARY TABLE {numbers} (number INT PRIMARY KEY)")
        for group in self._chunks((number,) for number in range(max(n for _, n in kept))):
            marks = ", ".join(["(%s)"] * len(group))
            await self.run(f"INSERT INTO {numbers} VALUES {marks}", _flat(group))
        for some in self._chunks(kept):
            marks = ", ".join(["(%s, 0, %s)"] * len(some))
            await self.run(f"REPLACE INTO {wanted} VALUES {marks}", _flat(some))
        shown = ", ".join(
            f"r.{before_arguments(mysql_name(column.name))}" for column in model.columns
        )
        await self._plain(
            f"INSERT INTO {table} ({names}) SELECT {shown} FROM (SELECT *, {digest} AS digest_of_row "
            f"FROM {rows}) r JOIN {wanted} s ON s.row_digest = r.digest_of_row "
            f"JOIN {numbers} n ON n.number < s.row_kept GROUP BY s.row_digest, n.number"
        )

    async def _plain(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement without values, whose names are written for one with values."""
        return await self.run(sql.replace("%%", "%"))

    async def _insert(
        self, table: str, model: TableModel, rows: Iterable[Values], *, replace: bool = False
    ) -> None:
        names = [before_arguments(mysql_name(column.name)) for column in model.columns]
        one = f"({', '.join(placeholder(column) for column in model.columns)})"
        end = ""
        if replace:
            # VALUES() is deprecated where an alias can be given, and the only way where it cannot.
            alias = not self.target.is_mariadb and self.target.version >= (8, 0, 19)
            new = "new.{}" if alias else "VALUES({})"
            sets = ", ".join(f"{name} = {new.format(name)}" for name in names)
            end = f"{' AS new' * alias} ON DUPLICATE KEY UPDATE {sets}"
        for group in self._chunks(rows):
            await self.run(
                f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join([one] * len(group))}{end}",
                _flat(group),
            )

    def _check_count(self, changes: NetChanges, wanted: int, done: int) -> None:
        if changes.strict and done != wanted:
            raise DivergedError(
                changes.name, f"{wanted - done} of {wanted} rows to change are not there"
            )

    async def _check(self, changes: NetChanges, wanted: int) -> None:
        if not changes.strict:
            return
        rows = await self.run("SELECT ROW_COUNT()")
        self._check_count(changes, wanted, int(rows[0][0]))

    def _chunks(self, rows: Iterable[Values]) -> Iterable[list[Values]]:
        """The rows in groups that make statements of a moderate size."""
        limit = min(self._packet // 4, 4 << 20)
        group: list[Values] = []
        size = 0
        for row in rows:
            length = sum(2 * len(v) if isinstance(v, (str, bytes)) else 24 for v in row)
            if group and (len(group) >= _MOST_ROWS or size + length > limit):
                yield group
                group, size = [], 0
            group.append(row)
            size += length
        if group:
            yield group


def _digest(model: TableModel, table: str = "") -> str:
    """Return SQL that tells rows apart by all their columns."""
    texts = ", ".join(
        f"IFNULL(SHA2({_exact(column, table)}, 256), 'NULL')" for column in model.columns
    )
    return f"SHA2(CONCAT_WS('|', {texts}), 256)"


def _exact(column: ColumnModel, table: str) -> str:
    """Return SQL whose text tells the values of a column apart."""
    name = f"{table}{'.' * bool(table)}{before_arguments(mysql_name(column.name))}"
    if column.kind == "float":
        return f"CAST({name} + 0e0 AS CHAR)"  # FLOAT is shown with six digits otherwise
    return name if column.kind in BYTES or column.kind in GEOMETRIES else f"CAST({name} AS CHAR)"


def _compared(model: TableModel, key: Sequence[int], values: Values) -> Values:
    """Return a key as it is compared with stored ones."""
    return tuple(key_value(model.columns[at], value) for at, value in zip(key, values, strict=True))


def _flat(rows: list[Values]) -> list[Any]:
    return [value for row in rows for value in row]


@asynccontextmanager
async def server_errors(where: str) -> AsyncIterator[None]:
    """What the mirror's server refuses in the block is a ``SinkError``.

    Args:
        where: the server, without credentials.
    """
    try:
        yield
    except SinkError:
        raise
    except TransportError as error:
        raise SinkError(f"mirror on {where}: {error}", retriable=True) from error
    except ServerError as error:
        raise SinkError(f"mirror on {where}: {error}", retriable=may_pass(error)) from error


def may_pass(error: ServerError) -> bool:
    """Return whether the same statement may work later."""
    return error.errno in _MAY_PASS or error.errno in TRANSIENT_ERRORS
