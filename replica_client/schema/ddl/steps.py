"""The steps that a catalog takes for a statement, and the tables that they touch."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replica_client.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.column_clause import ColumnText, PrimaryKey
from replica_client.schema.ddl.lexer import Token

TableName = tuple[str, str]
"""Database and table."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table is made, from definitions.

    Attributes:
        table: its name.
        columns: the definitions.
        primary_key: its columns.
        charset: the table's own; None where the statement has none.
        charset_unknown: whether it has one that the statement does not tell.
        if_not_exists: nothing happens when it is there.
        or_replace: what is there goes first.
        temporary: the table is of the session and in no rows event.
        versioned: WITH SYSTEM VERSIONING.
        period: its period columns are among the columns.
        select: the query that makes more columns, as text; ``""`` for none.
    """

    table: TableName
    columns: tuple[ColumnText, ...]
    primary_key: PrimaryKey | None = None
    charset: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = False
    versioned: bool = False
    period: bool = False
    select: str = ""
    charset_unknown: bool = False

    def behind(
        self, table: TableName, if_not_exists: bool, or_replace: bool, temporary: bool
    ) -> CreateTable:
        """The same definitions behind another head; ``dataclasses.replace`` takes five times as long."""
        return CreateTable(
            table,
            self.columns,
            self.primary_key,
            self.charset,
            if_not_exists,
            or_replace,
            temporary,
            self.versioned,
            self.period,
            self.select,
            self.charset_unknown,
        )


@dataclass(frozen=True, slots=True)
class CreateLike:
    """A table is made like another one."""

    table: TableName
    model: TableName
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class CreateSequence:
    """A MariaDB sequence is made: a table with eight columns.

    Attributes:
        table: its name.
        if_not_exists: nothing happens when it is there.
        or_replace: what is there is dropped first.
        temporary: it is of the session.
        kind: of its values: ``bigint``, or the type after AS.
        unsigned: of them.
    """

    table: TableName
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = False
    kind: str = "bigint"
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN."""

    column: ColumnText
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE, MODIFY: a column gets a new definition."""

    old: str
    column: ColumnText
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    old: str
    new: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetVisible:
    """ALTER COLUMN … SET VISIBLE or INVISIBLE."""

    name: str
    visible: bool


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER COLUMN … SET DEFAULT, or DROP DEFAULT (None): no row changes by it."""

    name: str
    default: tuple[Token, ...] | None


@dataclass(frozen=True, slots=True)
class SetPrimaryKey:
    """ADD PRIMARY KEY."""

    key: PrimaryKey


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """DROP PRIMARY KEY."""


@dataclass(frozen=True, slots=True)
class SetBounds:
    """ADD PERIOD FOR: columns that cannot be NULL from now on."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetCharset:
    """DEFAULT CHARACTER SET: what columns get that come later; None: the database's default."""

    charset: str | None


@dataclass(frozen=True, slots=True)
class ConvertCharset:
    """CONVERT TO CHARACTER SET: all text columns; None: the database's default."""

    charset: str | None


@dataclass(frozen=True, slots=True)
class SetVersioning:
    """ADD or DROP SYSTEM VERSIONING."""

    versioned: bool


Step = (
    AddColumn
    | ChangeColumn
    | DropColumn
    | RenameColumn
    | SetVisible
    | SetPrimaryKey
    | DropPrimaryKey
    | SetBounds
    | SetCharset
    | ConvertCharset
    | SetVersioning
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    """A table is altered.

    Attributes:
        table: its name.
        steps: the clauses that change its shape, in order; the others are left out.
        rename: its new name.
        if_exists: nothing happens when it is not there.
        to_table: CONVERT PARTITION … TO TABLE: a new table of the same shape.
        from_table: CONVERT TABLE … TO PARTITION: a table that goes.
        defaults: what columns have by default from now on.
        exchanged: EXCHANGE PARTITION … WITH TABLE: the table whose rows change places with a partition's.
        row_clauses: what it says that changes which rows there are: ``DROP PARTITION``, ``IGNORE`` …
    """

    table: TableName
    steps: tuple[Step, ...] = ()
    rename: TableName | None = None
    if_exists: bool = False
    to_table: TableName | None = None
    from_table: TableName | None = None
    defaults: tuple[SetDefault, ...] = ()
    exchanged: TableName | None = None
    row_clauses: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[TableName, ...]:
        """More tables that it changes: its new name among them."""
        found = (self.rename, self.to_table, self.from_table, self.exchanged)
        return tuple(name for name in found if name is not None)


@dataclass(frozen=True, slots=True)
class RenameTables:
    """Tables get other names, one after the other."""

    renames: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTables:
    """Tables go."""

    tables: tuple[TableName, ...]
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """All rows of a table go; its shape stays."""

    table: TableName


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A database is made; ``charset`` None: the server's default."""

    database: str
    charset: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """A database's default character set changes; None: nothing or the server's default."""

    database: str
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """A database goes, with all its tables."""

    database: str


@dataclass(frozen=True, slots=True)
class Unrelated:
    """Nothing that changes what a table's rows look like."""


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """What it changes is not known.

    Attributes:
        reason: what is not understood.
        tables: that it may change.
        databases: all whose tables it may change.
        anything: every table may be changed.
    """

    reason: str
    tables: tuple[TableName, ...] = ()
    databases: tuple[str, ...] = field(default=())
    anything: bool = False


Meaning = (
    CreateTable
    | CreateLike
    | CreateSequence
    | AlterTable
    | RenameTables
    | DropTables
    | TruncateTable
    | CreateDatabase
    | AlterDatabase
    | DropDatabase
    | Unrelated
    | NotUnderstood
)

ChangeKind = Literal[
    "create_table",
    "alter_table",
    "rename_table",
    "drop_table",
    "truncate_table",
    "create_database",
    "alter_database",
    "drop_database",
    "not_understood",
]


def uncertain(meaning: Meaning, reason: str) -> NotUnderstood:
    """A statement that is not certain to be done: all tables that it names."""
    match meaning:
        case CreateTable() | CreateLike() | CreateSequence() | TruncateTable():
            if getattr(meaning, "temporary", False) or isinstance(meaning, TruncateTable):
                return NotUnderstood(reason, ())
            return NotUnderstood(reason, (meaning.table,))
        case AlterTable():
            return NotUnderstood(reason, (meaning.table, *meaning.others))
        case RenameTables():
            return NotUnderstood(reason, tuple(table for pair in meaning.renames for table in pair))
        case CreateDatabase() | AlterDatabase():
            return NotUnderstood(reason, databases=(meaning.database,))
    return meaning if isinstance(meaning, NotUnderstood) else NotUnderstood(reason, anything=True)


def tables_touched(meaning: Meaning) -> tuple[tuple[TableName, ...], tuple[str, ...], bool]:
    """The tables and databases that a statement may change, and whether it may be any."""
    match meaning:
        case CreateTable():
            return (() if meaning.temporary else (meaning.table,)), (), False
        case Unrelated() | TruncateTable():
            return (), (), False
        case DropTables():
            return (() if meaning.temporary else meaning.tables), (), False
        case CreateDatabase() | AlterDatabase() | DropDatabase():
            return (), (meaning.database,), False
        case NotUnderstood():
            return meaning.tables, meaning.databases, meaning.anything
        case AlterTable(steps=(), rename=None, to_table=None, from_table=None):
            return (), (), False
    found = uncertain(meaning, "")
    return found.tables, found.databases, found.anything
