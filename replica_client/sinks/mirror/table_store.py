"""A mirror that keeps tables and their position in one transaction, independent of the SQL dialect.

Three tables are the mirror's own: the state (the position and data that belongs to it), the
definitions of the mirrored tables as JSON, with ``stored_as`` if a table's name is not the plain
one, and initial copies.

Values have the form of :mod:`~replica_client.sinks.mirror.stored_values`, whatever type the
database stores: the effect of an ALTER on rows is computed on this form, once for all databases.
"""

# Over 500 lines: tables, copies, owners and the position share one transaction.

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from replica_client.errors import PositionFormatError, SchemaError, SinkError
from replica_client.protocol.position import Position
from replica_client.schema.model import TableModel
from replica_client.sinks.mirror.mirror_database import Alteration, MirrorDatabase
from replica_client.sinks.mirror.stored_names import STORED_AS
from replica_client.storage.durable import joined_name
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.growing import GrowingKeys
from replica_client.stream.position.stores.ownership import (
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
from replica_client.stream.tables.net_changes import (
    DivergedError,
    NetChanges,
    TableCopy,
    TableName,
    Values,
)


class TableStore:
    """An open mirror.

    Args:
        database: database of the mirror; closed with the store.
        claim: the identity to write as; None: no identity, and the mirror has no other writer.

    Attributes:
        tables: the mirrored tables.
        copies: initial copies that the stream has not passed.
    """

    def __init__(self, database: MirrorDatabase, claim: Claim | None = None) -> None:
        self._database = database
        self._claim = claim
        # Name and expected value of a record that each transaction checks: the lease, or a token
        # without an identity.
        self._key, self._token = "owner", secrets.token_hex(8)
        self._prefix = ""
        self._foreign: dict[TableName, Owner] = {}
        # Until a position is committed, statements may arrive that were applied before a crash.
        self._may_repeat = True
        self._state = GrowingKeys()
        self._names = database.names
        self.tables: dict[TableName, TableModel] = {}
        self.copies: dict[TableName, TableCopy] = {}

    def prepare(self) -> Checkpoint | None:
        """Create the mirror's own tables, take the mirror over, and return its checkpoint.

        Raises:
            SinkError: the database holds no mirror of this release.
        """
        database = self._database
        if not database.shared and self._claim is not None:
            self._check_alone(self._claim)
        database.prepare()
        try:
            self._take_over()
            return self._read()
        except (SchemaError, PositionFormatError, ValueError) as error:
            raise SinkError(f"{database.where} is not a mirror of this release: {error}") from error

    def _check_alone(self, claim: Claim) -> None:
        """Check that the database has no other owner, before anything is written there.

        Raises:
            ForeignOwnerError: another owner has it.
        """
        if not self._database.is_made:
            return
        owners = owners_of(self._records())
        mine = claim.resolve(owners).id
        for other in owners:
            if other.id not in (mine, claim.takes_over):
                raise claim.foreign(self._database.where, other)

    def owners(self) -> list[Owner]:
        """Return the identities that write to the mirror, for readers."""
        try:
            return owners_of(self._records()) if self._database.is_made else []
        except ValueError as error:
            raise SinkError(
                f"{self._database.where} is not a mirror of this release: {error}"
            ) from error

    def saved(self) -> Checkpoint | None:
        """Return the saved checkpoint, for readers: nothing is created, taken over or changed."""
        try:
            if not self._database.is_made:
                return None
            records = self._records()
            if self._claim is not None:
                self._prefix = f"{self._claim.resolve(owners_of(records)).id}/"
                if f"{self._prefix}{POSITION}" not in records and POSITION in records:
                    self._prefix = ""
            return self._checkpoint(records)
        except (SchemaError, PositionFormatError, ValueError) as error:
            raise SinkError(
                f"{self._database.where} is not a mirror of this release: {error}"
            ) from error

    def _records(self) -> dict[str, str]:
        database = self._database
        return {
            str(name): str(value)
            for name, value in database.rows(f"SELECT name, value FROM {database.state_table}")
        }

    def _take_over(self) -> None:
        """Take the identity's lease, or set a token, in one transaction."""
        database, claim = self._database, self._claim
        database.begin()
        try:
            if claim is not None:
                database.lock_owners()
                self._claim_identity(claim)
            self._put(self._key, self._token)
        except BaseException:
            database.rollback()
            raise
        database.commit()

    def _claim_identity(self, claim: Claim) -> None:
        database, records = self._database, self._records()
        owner = claim.resolve(owners_of(records))
        for number in (owner.id, claim.takes_over):
            lease = Lease.from_text(records.get(f"{LEASE}{number}"))
            beat = records.get(f"{BEAT}{number}", "") if database.leases else secrets.token_hex(8)
            if not database.leases:
                lease = None if lease is None else replace(lease, holder="")
            taken = claim.take(lease, beat, database.session)
            if lease is not None and lease.session and lease.session != database.session:
                database.end_session(lease.session)
            if number == owner.id:
                self._key, self._token = f"{LEASE}{number}", taken.to_text()
        self._prefix = f"{owner.id}/"
        self._rekey(claim, owner, records)
        self._put(f"{OWNER}{owner.id}", json.dumps(owner.to_json()))

    def _rekey(self, claim: Claim, owner: Owner, records: Mapping[str, str]) -> None:
        """Take over records of an older release, or records that an operator assigned."""
        if claim.takes_over and f"{OWNER}{claim.takes_over}" in records:
            old = f"{claim.takes_over}/"
            for name in (OWNER, LEASE, BEAT):
                self._database.take(
                    self._database.state_table, ("name",), (f"{name}{claim.takes_over}",)
                )
        elif POSITION in records and self._fits(claim):
            old = ""
            # A running process of an older release notices the other writer by this token.
            self._put("owner", secrets.token_hex(8))
        else:
            return
        moved = {
            name: value
            for name, value in records.items()
            if name.startswith(old) and is_checkpoint(name.removeprefix(old))
        }
        if f"{self._prefix}{POSITION}" not in records:
            for name, value in moved.items():
                self._put(f"{self._prefix}{name.removeprefix(old)}", value)
        for name in moved:
            self._database.take(self._database.state_table, ("name",), (name,))
        for table, column in self._documents():
            for key, members in self._read_documents(table, column):
                if members.get(OWNED_BY, "") == old.removesuffix("/"):
                    members[OWNED_BY] = owner.id
                    self._put_document(table, column, key, json.dumps(members))

    def _fits(self, claim: Claim) -> bool:
        """Return whether records of an older release can belong to this identity."""
        names = [
            name
            for table, column in self._documents()
            for name, members in self._read_documents(table, column)
            if OWNED_BY not in members
        ]
        return not names or any(map(claim.fits, names))

    def _documents(self) -> tuple[tuple[str, str], ...]:
        database = self._database
        return (database.tables_table, "definition"), (database.copies_table, "copy")

    def _read_documents(self, table: str, column: str) -> list[tuple[TableName, dict[str, Any]]]:
        return [
            ((str(found[0]), str(found[1])), json.loads(found[2]))
            for found in self._database.rows(
                f"SELECT {self._database.database_column}, name, {column} FROM {table}"
            )
        ]

    def _read(self) -> Checkpoint | None:
        records = self._records()
        owners = {one.id: one for one in owners_of(records)}
        mine = self._prefix.removesuffix("/")
        (tables, definition), (copies, copy) = self._documents()
        for name, members in self._read_documents(tables, definition):
            owner = members.pop(OWNED_BY, "")
            self._recall(name, members.pop(STORED_AS, None))
            if owner == mine:
                self.tables[name] = TableModel.from_json(*name, members)
            elif self._claim is not None:
                self._foreign[name] = owners.get(owner) or unknown_owner(owner)
            self._names.name(name)
        for name, members in self._read_documents(copies, copy):
            owner = members.pop(OWNED_BY, "")
            self._recall(name, members.get(STORED_AS))
            if owner == mine:
                self.copies[name] = TableCopy.from_json(*name, members)
            elif self._claim is not None:
                self._foreign[name] = owners.get(owner) or unknown_owner(owner)
            self._names.name(name)
        if self._claim is not None:
            self._claim.check_tables(self._foreign)
        return self._checkpoint(records)

    def _checkpoint(self, records: Mapping[str, str]) -> Checkpoint | None:
        prefix = self._prefix
        mine = {
            name.removeprefix(prefix): text
            for name, text in records.items()
            if name.startswith(prefix) and is_checkpoint(name.removeprefix(prefix))
        }
        if POSITION not in mine:
            return None
        state = self._state.read(mine.get(GrowingKeys.KEY), mine)
        return Checkpoint(Position.from_json(mine[POSITION]), state)

    def write_beat(self, database: MirrorDatabase, text: str) -> None:
        """Write a heartbeat on a connection that is used for nothing else."""
        name = self._key.replace(LEASE, BEAT, 1)
        database.put(database.state_table, ("name", "value"), (name, text))

    def give_back(self) -> None:
        """Release the lease if this process still holds it."""
        lease = Lease.from_text(self._token) if self._claim is not None else None
        if lease is None or not self._prefix:
            return
        database = self._database
        if database.in_transaction:
            database.rollback()
        self.begin()
        self._put(self._key, replace(lease, holder="", session="").to_text())
        database.commit()

    def _recall(self, name: TableName, stored: str | None) -> None:
        """Restore a table's stored name. Old mirrors have names that are not escaped."""
        old = ".".join(name)
        if stored is None and old != joined_name(*name) and self._database.has(old):
            stored = old
        if stored is not None:
            self._names.set(name, stored)

    def _with_name(self, name: TableName, value: dict[str, Any]) -> str:
        stored, owner = self._names.kept(name), self._prefix.removesuffix("/")
        of_name = {} if stored is None else {STORED_AS: stored}
        return json.dumps({**value, **of_name, **({OWNED_BY: owner} if owner else {})})

    def _put(self, name: str, value: str) -> None:
        self._database.put(self._database.state_table, ("name", "value"), (name, value))

    def _put_document(self, table: str, column: str, name: TableName, text: str) -> None:
        self._database.put(table, (self._database.database_column, "name", column), (*name, text))

    def _take_document(self, table: str, name: TableName) -> None:
        self._database.take(table, (self._database.database_column, "name"), name)

    def begin(self) -> None:
        """Begin a transaction if none is open.

        Raises:
            SinkError: another process writes the mirror now.
        """
        database = self._database
        if database.in_transaction and not database.unlocked:
            return
        database.begin()
        found = database.rows(
            f"SELECT value FROM {database.state_table} WHERE name = {database.mark}{database.locking}",
            (self._key,),
        )
        if list(found) != [(self._token,)]:
            database.rollback()
            if self._claim is not None:
                raise fenced(database.where)
            raise SinkError(
                f"{database.where}: another process writes this mirror; stop one of them"
            )

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit rows and position together."""
        self.begin()
        database = self._database
        self._put(f"{self._prefix}{POSITION}", json.dumps(checkpoint.position.to_json()))
        plan = self._state.plan(checkpoint.state)
        for key, value in plan.put.items():
            self._put(f"{self._prefix}{key}", value)
        for key in plan.gone:
            database.take(database.state_table, ("name",), (f"{self._prefix}{key}",))
        for copy in [one for one in self.copies.values() if one.is_passed(checkpoint.position)]:
            self._take_document(database.copies_table, copy.name)
            del self.copies[copy.name]
        database.commit()
        self._state.saved(plan)
        self._may_repeat = False

    def abort(self) -> None:
        """Break the connection, from another thread."""
        self._database.abort()

    def rollback(self) -> None:
        """Roll back uncommitted changes."""
        if self._database.in_transaction:
            self._database.rollback()

    def close(self) -> None:
        """Close the database. Uncommitted changes are lost."""
        self._database.close()

    # Tables.

    def create(self, model: TableModel) -> None:
        """Create a table. An existing table is replaced if it has no rows.

        Raises:
            SinkError: the table exists and has rows.
        """
        name = (model.database, model.name)
        self._check_owner(name)
        if name in self.tables:
            if not self.is_empty(model):
                raise DivergedError(
                    f"{model.database}.{model.name}", "a table is made that is there"
                )
            self.renew(self.tables[name], model)
            return
        self._database.create(model)
        self._keep(model)

    def _check_owner(self, name: TableName) -> None:
        """Check that a table has no other owner, even one that appeared after the opening.

        Raises:
            ForeignOwnerError: another owner has it.
        """
        if self._claim is None or name in self.tables or name in self.copies:
            return
        database = self._database
        records: dict[str, str] | None = None
        for table, column in self._documents():
            for (text,) in list(
                database.rows(
                    f"SELECT {column} FROM {table} WHERE {database.database_column} = {database.mark} "
                    f"AND name = {database.mark}",
                    name,
                )
            ):
                owner = json.loads(text).get(OWNED_BY, "")
                if owner != self._prefix.removesuffix("/"):
                    records = self._records() if records is None else records
                    owners = {one.id: one for one in owners_of(records)}
                    raise self._claim.foreign(
                        ".".join(name), owners.get(owner) or unknown_owner(owner)
                    )

    def renew(self, old: TableModel, new: TableModel) -> None:
        """Replace a table by an empty one, which may have another name."""
        name = (old.database, old.name)
        if name != (new.database, new.name):
            self._check_owner((new.database, new.name))
            self._take_document(self._database.tables_table, name)
            self.tables.pop(name, None)
        self._database.renew(old, new)
        self._keep(new)

    def alter(self, alteration: Alteration) -> None:
        """Alter a table in place; only if :attr:`alters`.

        Raises:
            SinkError: two rows have one key.
        """
        before, after = alteration.before, alteration.after
        name = (before.database, before.name)
        if name != (after.database, after.name):
            self._check_owner((after.database, after.name))
            self._take_document(self._database.tables_table, name)
            self.tables.pop(name, None)
        try:
            self._database.alter(alteration)
        except self._database.conflict as error:
            text = f"{after.database}.{after.name}"
            raise DivergedError(text, "two rows have the same new key") from error
        self._keep(after)

    @property
    def alters(self) -> bool:
        """Whether tables are altered in place."""
        return self._database.alters

    @property
    def native(self) -> bool:
        """Whether the database has the source's types and converts values as the source does."""
        return self._database.native

    def at_step(self, position: str, number: int) -> None:
        """Note which statement is applied next; see :meth:`MirrorDatabase.at_step`."""
        self._database.at_step(position, number, may_repeat=self._may_repeat)

    @property
    def is_done(self) -> bool:
        """Whether the change noted by :meth:`at_step` was applied already."""
        return self._database.is_done

    def _keep(self, model: TableModel) -> None:
        name = (model.database, model.name)
        text = self._with_name(name, model.to_json())
        self._put_document(self._database.tables_table, "definition", name, text)
        self.tables[name] = model

    def _forget(self, name: TableName) -> None:
        self._take_document(self._database.tables_table, name)
        self.tables.pop(name, None)
        self._names.forget(name)

    def drop(self, name: TableName) -> None:
        """Drop a table."""
        self._database.drop(name)
        self._forget(name)

    def truncate(self, name: TableName) -> None:
        """Delete all rows of a table."""
        self._database.truncate(self.tables[name])

    def rename(self, name: TableName, model: TableModel) -> None:
        """Rename a table to the name of a definition, and store the definition."""
        new = (model.database, model.name)
        self._check_owner(new)
        if new != name:
            self._take_document(self._database.tables_table, name)
            self.tables.pop(name, None)
            self._database.rename(name, model)
        self._keep(model)

    # Initial copies.

    def want_copies(self, names: Iterable[TableName]) -> None:
        self.begin()
        for name in names:
            self._check_owner(name)
            self._note(TableCopy(*name))
        self._database.commit()

    def forget_tables(self, names: Iterable[TableName]) -> None:
        self.begin()
        for name in names:
            self._take_document(self._database.tables_table, name)
            self._take_document(self._database.copies_table, name)
            self.tables.pop(name, None)
            self.copies.pop(name, None)
        self._database.commit()

    def begin_copy(self, copy: TableCopy) -> None:
        self.begin()
        begun = self.copies.get(copy.name)
        database = self._database
        old = self.tables.get(copy.name) or (None if begun is None else begun.definition)
        self._take_document(database.tables_table, copy.name)
        self.tables.pop(copy.name, None)
        self._note(copy)
        if database.ddl_commits:
            # DDL commits: a half-made table is then started again.
            database.commit()
        if copy.definition is not None and old is not None:
            database.renew(old, copy.definition)
        else:
            (database.drop_unknown if old is None else database.drop)(copy.name)
            if copy.definition is not None:
                database.create(copy.definition)
        if database.in_transaction:
            database.commit()

    def copy_rows(self, model: TableModel, rows: Iterable[Values]) -> None:
        self.begin()
        self._insert(model, rows)

    def save_copy(self, copy: TableCopy) -> None:
        self.begin()
        self._note(copy)
        if copy.until is not None and copy.definition is not None:
            self._keep(copy.definition)
        self._database.commit()

    def _note(self, copy: TableCopy) -> None:
        text = self._with_name(copy.name, copy.to_json())
        self._put_document(self._database.copies_table, "copy", copy.name, text)
        self.copies[copy.name] = copy

    def is_empty(self, model: TableModel) -> bool:
        """Return whether a table has no rows."""
        return self._database.is_empty(model)

    def rows(self, model: TableModel, columns: Sequence[str]) -> Generator[Values, None, None]:
        """Yield some columns of all rows of a table."""
        table = self._database.table((model.database, model.name))
        known = {column.name: column for column in model.columns}
        shown = [
            self._database.shown(known[name]) if name in known else self._database.quoted(name)
            for name in columns
        ]
        yield from self._database.stored_rows(table, shown or ["1"])

    def rebuild(self, old: TableModel, new: TableModel, rows: Iterator[Values]) -> None:
        """Replace a table by one with another definition and other rows.

        Raises:
            SinkError: two rows have one key.
        """
        database = self._database
        database.create_rebuilt(new)
        try:
            database.insert(database.rebuilt, new, rows)
        except database.conflict as error:
            name = f"{new.database}.{new.name}"
            raise DivergedError(name, "two rows have the same new key") from error
        objects = database.objects(old)
        self.drop((old.database, old.name))
        database.replace(database.rebuilt, new)
        database.make_objects((new.database, new.name), objects)
        self._keep(new)

    # Rows.

    def apply(self, changes: NetChanges) -> None:
        """Apply net changes.

        Raises:
            DivergedError: the table does not have the expected rows.
        """
        if changes.keyed:
            self._apply_keyed(changes)
        else:
            self._apply_keyless(changes)

    def _apply_keyed(self, changes: NetChanges) -> None:
        database, model = self._database, changes.model
        removed, added = changes.by_key.removed, changes.by_key.added
        try:
            if removed or added:
                done = database.change_rows(
                    model, changes.key, removed.keys(), added, strict=changes.strict
                )
                self._check(changes, len(removed), done)
            for patched, group in changes.patch_groups():
                done = database.patch(model, changes.key, patched, group)
                self._check(changes, len(group), done)
        except database.conflict as error:
            raise DivergedError(changes.name, "a row is added that is there") from error

    def _apply_keyless(self, changes: NetChanges) -> None:
        fewer = list(changes.counts.fewer())
        if fewer:
            done = self._database.take_away(changes.model, fewer)
            self._check(changes, sum(count for _, count in fewer), done)
        self._insert(changes.model, changes.counts.more())

    def _insert(self, model: TableModel, rows: Iterable[Values]) -> None:
        table = self._database.table((model.database, model.name))
        self._database.insert(table, model, rows)

    def _check(self, changes: NetChanges, wanted: int, done: int) -> None:
        if changes.strict and done != wanted:
            raise DivergedError(
                changes.name, f"{wanted - done} of {wanted} rows to change are not there"
            )
