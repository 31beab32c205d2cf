"""A database that holds tables of the source, and how far they are, in one transaction; how it speaks is a dialect's.

Three tables are the mirror's own: the state (the position and what belongs to it), the definitions of the mirrored
tables as JSON, with ``stored_as`` where a table has another name than the plain one, and first copies.

Values are handed over as :mod:`~replica_client.sinks.mirror.stored_values` says, whatever type the database keeps
them in: what an ALTER makes of rows is worked out on them, once for all databases.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from replica_client.errors import PositionFormatError, SchemaError, SinkError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.growing import GrowingKeys
from replica_client.schema.model import TableModel
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.stored_names import STORED_AS
from replica_client.storage.file_names import joined_name
from replica_client.tables.net_changes import DivergedError, NetChanges, Values
from replica_client.tables.table_copy import TableCopy, TableName


class TableStore:
    """An open mirror.

    Args:
        database: that holds it; closed with it.

    Attributes:
        tables: the mirrored tables.
        copies: first copies that the stream has not passed.
    """

    def __init__(self, database: MirrorDatabase) -> None:
        self._database = database
        self._owner = secrets.token_hex(8)
        self._state = GrowingKeys()
        self._names = database.names
        self.tables: dict[TableName, TableModel] = {}
        self.copies: dict[TableName, TableCopy] = {}

    def prepare(self) -> Checkpoint | None:
        """Make the mirror's own tables, take the mirror over, and read how far it is.

        Raises:
            SinkError: the database holds something else.
        """
        database = self._database
        database.prepare()
        database.begin()
        self._put("owner", self._owner)
        database.commit()
        columns = "database, name"
        try:
            for found in database.rows(
                f"SELECT {columns}, definition FROM {database.tables_table}"
            ):
                name, members = (str(found[0]), str(found[1])), json.loads(found[2])
                self._recall(name, members.pop(STORED_AS, None))
                self.tables[name] = TableModel.from_json(*name, members)
            for found in database.rows(f"SELECT {columns}, copy FROM {database.copies_table}"):
                name, members = (str(found[0]), str(found[1])), json.loads(found[2])
                self._recall(name, members.get(STORED_AS))
                self.copies[name] = TableCopy.from_json(*name, members)
            for one in (*self.tables, *self.copies):
                self._names.name(one)
            state: dict[str, str] = dict(
                database.rows(f"SELECT name, value FROM {database.state_table}")
            )
            if "position" not in state:
                return None
            parts = {key: text for key, text in state.items() if key.startswith(GrowingKeys.PREFIX)}
            states = self._state.read(state.get(GrowingKeys.KEY), parts)
            return Checkpoint(Position.from_json(state["position"]), states)
        except (SchemaError, PositionFormatError, ValueError) as error:
            raise SinkError(f"{database.where} is no mirror of this release: {error}") from error

    def _recall(self, name: TableName, stored: str | None) -> None:
        """Take over how a table is called; mirrors of old have names that are not escaped."""
        old = ".".join(name)
        if stored is None and old != joined_name(*name) and self._database.has(old):
            stored = old
        if stored is not None:
            self._names.set(name, stored)

    def _with_name(self, name: TableName, value: dict[str, Any]) -> str:
        stored = self._names.kept(name)
        return json.dumps(value if stored is None else {**value, STORED_AS: stored})

    def _put(self, name: str, value: str) -> None:
        self._database.put(self._database.state_table, ("name", "value"), (name, value))

    def _put_document(self, table: str, column: str, name: TableName, text: str) -> None:
        self._database.put(table, ("database", "name", column), (*name, text))

    def _take_document(self, table: str, name: TableName) -> None:
        self._database.take(table, ("database", "name"), name)

    def begin(self) -> None:
        """Begin a transaction where none is.

        Raises:
            SinkError: another process took the mirror over.
        """
        database = self._database
        if database.in_transaction:
            return
        database.begin()
        owner = database.rows(
            f"SELECT value FROM {database.state_table} WHERE name = {database.mark}", ("owner",)
        )
        if list(owner) != [(self._owner,)]:
            database.rollback()
            raise SinkError(
                f"{database.where}: another process writes this mirror; stop one of them"
            )

    def commit(self, checkpoint: Checkpoint) -> None:
        """Commit rows and position together."""
        self.begin()
        database = self._database
        self._put("position", json.dumps(checkpoint.position.to_json()))
        plan = self._state.plan(checkpoint.state)
        for key, value in plan.put.items():
            self._put(key, value)
        for key in plan.gone:
            database.take(database.state_table, ("name",), (key,))
        for copy in [one for one in self.copies.values() if one.is_passed(checkpoint.position)]:
            self._take_document(database.copies_table, copy.name)
            del self.copies[copy.name]
        database.commit()
        self._state.saved(plan)

    def close(self) -> None:
        """Close; what is not committed goes."""
        self._database.close()

    # Tables.

    def create(self, model: TableModel) -> None:
        """Make a table; one that is there is replaced when it has no rows.

        Raises:
            SinkError: there is one with rows.
        """
        name = (model.database, model.name)
        if name in self.tables:
            if not self.is_empty(model):
                raise DivergedError(
                    f"{model.database}.{model.name}", "a table is made that is there"
                )
            self.drop(name)
        self._database.create(model)
        self._keep(model)

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
        """Remove a table."""
        self._database.drop(name)
        self._forget(name)

    def truncate(self, name: TableName) -> None:
        """Remove all rows of a table."""
        self._database.truncate(self.tables[name])

    def rename(self, name: TableName, model: TableModel) -> None:
        """Give a table the name of a definition, and keep the definition."""
        new = (model.database, model.name)
        if new != name:
            self._take_document(self._database.tables_table, name)
            self.tables.pop(name, None)
            self._database.rename(name, model)
        self._keep(model)

    # First copies.

    def want_copies(self, names: Iterable[TableName]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        self.begin()
        for name in names:
            self._note(TableCopy(*name))
        self._database.commit()

    def begin_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        self.begin()
        self.drop(copy.name)
        if copy.definition is not None:
            self._database.create(copy.definition)
        self._note(copy)
        self._database.commit()

    def copy_rows(self, model: TableModel, rows: Iterable[Values]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        self.begin()
        self._insert(model, rows)

    def save_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
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
        """Whether a table has no rows."""
        return self._database.is_empty(model)

    def rows(self, model: TableModel, columns: Sequence[str]) -> Generator[Values, None, None]:
        """Some columns of all rows of a table."""
        table = self._database.table((model.database, model.name))
        known = {column.name: column for column in model.columns}
        shown = [
            self._database.shown(known[name]) if name in known else self._database.quoted(name)
            for name in columns
        ]
        yield from self._database.stored_rows(table, shown or ["1"])

    def rebuild(self, old: TableModel, new: TableModel, rows: Iterator[Values]) -> None:
        """Replace a table by one of another definition, and other rows.

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
        self.drop((old.database, old.name))
        database.replace(database.rebuilt, new)
        self._keep(new)

    # Rows.

    def apply(self, changes: NetChanges) -> None:
        """Apply net changes.

        Raises:
            DivergedError: the table is not what it should be.
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
