"""A change to a table or database by a statement, for consumers."""

from __future__ import annotations

from replica_client.codec.quick_dataclass import dataclass
from replica_client.schema.catalog import TableChange, Unverified
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.model import TableModel


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A change to a table or database by a statement.

    There is one object for each selected table that the statement names; a swap by RENAME gives
    three. Statements that change no table's shape and no rows (CREATE INDEX, views, routines,
    OPTIMIZE …) give none. Changes come in binlog order: in ``Transaction.schema_changes`` and
    ``Transaction.items``, and from ``changes(notices=True)`` and ``batches(notices=True)``, for
    files and live sources. The attributes and kinds are stable.

    Attributes:
        kind: ``create_table``, ``alter_table``, ``rename_table``, ``drop_table``,
            ``truncate_table``, ``create_database``, ``alter_database``, ``drop_database`` or
            ``not_understood``.
        database: of the table, before a rename.
        table: the name before a rename; ``""`` for a change of a database.
        before: the definition before; None if there was none, or it is not known.
        after: the definition now, under the new name; None if the table was dropped, or its
            definition is not known.
        understood: False if :attr:`after` must be verified before rows of the table are read.
        statement: the statement's text.
        file: binlog file of the statement.
        position: offset of the statement in the file.
        event_index: index of the statement's event in the transaction.
        context: of its session; None where it is not known.
        server_id: of the server that ran the statement.
        merged: whether a transform merges several tables, of which this is one.
        new_name: database and table from now on if the name changes, also if the definition is not
            known; else None.

    Examples:
        >>> items = rc.open_binlog("shop-bin.000001").changes(notices=True)
        >>> made = [item for item in items if isinstance(item, rc.SchemaChange)]
        >>> [(one.kind, one.table) for one in made[:2]]
        [('create_database', ''), ('create_table', 'customers')]
    """

    kind: str
    database: str
    table: str
    before: TableModel | None
    after: TableModel | None
    understood: bool
    statement: str
    file: str = ""
    position: int = 0
    event_index: int = 0
    context: StatementContext | None = None
    server_id: int = 0
    merged: bool = False
    new_name: tuple[str, str] | None = None

    @property
    def name_after(self) -> tuple[str, str]:
        """Database and table after the statement."""
        if self.new_name is not None:
            return self.new_name
        if self.after is not None:
            return self.after.database, self.after.name
        return self.database, self.table


def schema_change(
    change: TableChange,
    statement: str,
    file: str,
    position: int,
    event_index: int,
    context: StatementContext | None = None,
    server_id: int = 0,
) -> SchemaChange:
    """Return a catalog's change in the form for consumers."""
    return SchemaChange(
        change.kind,
        *change.table,
        change.before if isinstance(change.before, TableModel) else None,
        change.after if isinstance(change.after, TableModel) else None,
        change.kind != "not_understood"
        and (not isinstance(change.after, Unverified))
        and (change.after is not None or not change.table[1]),
        statement,
        file,
        position,
        event_index,
        context,
        server_id,
        new_name=change.new_name,
    )
