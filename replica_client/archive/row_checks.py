"""Checks of rows against a server, before undo and redo write them, and the writes themselves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple, Self

from replica_client.errors import DataLossError, ServerError, TransportError
from replica_client.schema.ddl.steps import TableName
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection

MOST_ROWS: Final = 500
"""Rows of a statement at most."""
_MOST_TEXT: Final = 1 << 18
_LARGE: Final = str(2**63 - 1)

Verb = Literal["insert", "update", "delete"]


class RowWrite(NamedTuple):
    """A write of one row, in the terms of SQL; all names are quoted.

    Attributes:
        verb: the kind of the statement.
        table: the table's name in SQL.
        columns: the columns that it sets.
        values: their values.
        key: condition on the key of the row that must exist; empty for an insert.
        compared: the columns that must still have the values that the change left.
        exact: a condition for each of them.
        free: condition on a key that no row may have; empty: no key must be free.
        alone: whether no other row may be in its statement: the key changes, or the table has none.
        name: database and table.
    """

    verb: Verb
    table: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    key: str
    compared: tuple[str, ...]
    exact: tuple[str, ...]
    free: str
    alone: bool
    name: tuple[str, str]

    def to_text(self) -> str:
        """Return the write as JSON."""
        return json.dumps(self)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the write from the text of :meth:`to_text`."""
        values: list[Any] = [
            tuple(one) if isinstance(one, list) else one for one in json.loads(text)
        ]
        return cls(*values)

    @property
    def row(self) -> str:
        """The condition on the key of the row, before the write if there is one."""
        return self.key or self.free

    @property
    def where(self) -> str:
        """The condition on the row as the change left it."""
        return " AND ".join(dict.fromkeys(one for one in (self.key, *self.exact) if one))


def statement(writes: list[RowWrite]) -> str:
    """Return the statement of writes that :func:`grouped` put together."""
    first = writes[0]
    rows = " OR ".join(f"({one.where})" for one in writes) if len(writes) > 1 else first.where
    limit = "" if len(writes) > 1 else " LIMIT 1"
    if first.verb == "insert":
        values = ", ".join(f"({', '.join(one.values)})" for one in writes)
        return f"INSERT INTO {first.table} ({', '.join(first.columns)}) VALUES {values}"  # noqa: S608 - as below
    if first.verb == "delete":
        return f"DELETE FROM {first.table} WHERE {rows}{limit}"  # noqa: S608 - names and values are quoted
    sets = ", ".join(
        f"{column} = {_value(writes, number)}" for number, column in enumerate(first.columns)
    )
    return f"UPDATE {first.table} SET {sets} WHERE {rows}{limit}"  # noqa: S608 - as above


def _value(writes: list[RowWrite], number: int) -> str:
    """Return the expression for a column's value in each of several rows.

    A row whose value is NULL has no WHEN. MySQL 5.6 takes a CASE with a NULL among its values for
    signed, and stores 0 for numbers above the signed ones.
    """
    values = [one.values[number] for one in writes]
    if len(set(values)) == 1:
        return values[0]
    cases = " ".join(
        f"WHEN {one.key} THEN {value}"
        for one, value in zip(writes, values, strict=True)
        if value != "NULL"
    )
    return f"CASE {cases} END"


def grouped(writes: Iterable[RowWrite], most: int = MOST_ROWS) -> Iterator[list[RowWrite]]:
    """Yield writes, in order, in lists that one statement can do."""
    group: list[RowWrite] = []
    rows: set[str] = set()
    kinds: list[str] = []
    size = 0
    for one in writes:
        mine = list(map(_kind, one.values))
        size += sum(map(len, one.values)) + len(one.where)
        if group and (
            len(group) >= most
            or size > _MOST_TEXT
            or one.alone
            or group[0].alone
            or one[:3] != group[0][:3]
            or one.row in rows
            or not all(a == b or not a or not b for a, b in zip(kinds, mine, strict=True))
        ):
            yield group
            group, rows, kinds = [], set(), []
            size = sum(map(len, one.values)) + len(one.where)
        group.append(one)
        rows.add(one.row)
        kinds = [a or b for a, b in zip(kinds, mine, strict=True)] if kinds else mine
    if group:
        yield group


def _kind(value: str) -> str:
    """Return the kind of a value as SQL, empty for NULL.

    A CASE gives its values one common type. Values of one kind keep their bytes in it; text with
    another character set, or a number above the signed ones, might not.
    """
    if value == "NULL":
        return ""
    if value[0].isdigit() and len(value) >= len(_LARGE) and value.isdigit():
        return "unsigned" if (len(value), value) > (len(_LARGE), _LARGE) else "number"
    head = value[0]
    if head == "_":
        return value.partition(" ")[0]
    return "number" if head == "-" or head.isdigit() else head


_AT_ONCE: Final = 100
_DUPLICATE: Final = 1062


class Conflict(NamedTuple):
    """A row that differs from what a script expects.

    Attributes:
        write: the write that expects another row.
        what: ``gone``, ``changed`` or ``there``: the row has the key of a row that the script adds.
    """

    write: RowWrite
    what: Literal["gone", "changed", "there"]

    @property
    def row(self) -> str:
        """The condition that identifies the row."""
        return self.write.free if self.what == "there" else self.write.key


@asynccontextmanager
async def _session(url: str, session: tuple[str, ...]) -> AsyncIterator[SourceConnection]:
    async with await SourceConnection.open(parse_url(url)) as connection:
        for one in session:
            await connection.query(one)
        yield connection


async def conflicts(
    writes: Iterable[RowWrite], url: str, session: tuple[str, ...]
) -> list[Conflict]:
    """Return the rows of a server that differ from what writes expect; nothing is written.

    A column that several writes change is checked for the first of them. 8 bytes are kept for each
    row and each of its compared columns.

    Args:
        writes: the writes, in their order.
        url: URL of the server.
        session: statements that the script begins with.

    Raises:
        ServerError: the server refuses a query, for example because a table's columns differ.
        TransportError: the server cannot be reached.
    """
    async with _session(url, session) as connection:
        await connection.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        found: list[Conflict] = []
        waiting: list[RowWrite] = []
        for one in _first_looks(writes):
            waiting.append(one)
            if len(waiting) == _AT_ONCE:
                found += await _look(connection, waiting)
                waiting = []
        found += await _look(connection, waiting)
        await connection.query("ROLLBACK")
        return found


def _first_looks(writes: Iterable[RowWrite]) -> Iterator[RowWrite]:
    """Yield the writes with what they expect of rows and columns that no earlier one has changed."""
    seen: set[bytes] = set()
    moved: dict[tuple[str, str], str] = {}
    """The present keys of rows to which earlier writes give another key."""

    def digest(*parts: str) -> bytes:
        return blake2b("\0".join(parts).encode(), digest_size=8).digest()

    for one in writes:
        table, key, free = one.table, "", ""
        source = moved.get((table, one.key), "")
        row = source or one.key
        columns = [digest(table, row, column) for column in one.compared]
        exact: tuple[str, ...] = ()
        if row and (source or digest(table, row, "whole") not in seen):
            exact = tuple(
                condition
                for column, condition in zip(columns, one.exact, strict=True)
                if column not in seen
            )
            key = row if exact or digest(table, row) not in seen else ""
        if one.free and digest(table, one.free) not in seen:
            free = one.free
        seen.update((digest(table, row), *columns))
        if one.verb != "update" or one.alone:
            moved.pop((table, one.key), None)
            seen.add(digest(table, one.key, "whole"))
        if one.free:
            seen.update((digest(table, one.free), digest(table, one.free, "whole")))
            if one.key:
                moved[table, one.free] = row
        if key or free:
            yield one._replace(key=key, exact=exact, free=free)


async def _look(connection: SourceConnection, writes: list[RowWrite]) -> list[Conflict]:
    """Return the conflicts of some writes with the rows that the connection sees."""
    parts = []
    for number, one in enumerate(writes):
        exists = [_exists(one.table, each) for each in (one.key, one.key and one.where, one.free)]
        parts.append(f"SELECT {number}, {', '.join(exists)}")
    found: list[Conflict] = []
    if not parts:
        return found
    for number, there, exact, taken in await connection.query(" UNION ALL ".join(parts), columns=4):
        one = writes[int(number)]
        if one.key and not int(exact):
            found.append(Conflict(one, "changed" if int(there) else "gone"))
        elif one.free and int(taken):
            found.append(Conflict(one, "there"))
    return found


def _exists(table: str, condition: str) -> str:
    if not condition:
        return "0"
    return f"EXISTS (SELECT 1 FROM {table} WHERE {condition})"  # noqa: S608 - values are quoted where it was made


class Applied(NamedTuple):
    """The result of :func:`apply`.

    Attributes:
        committed: whether anything was written.
        counts: rows by verb and table name.
        conflicts: rows that differ from what the writes expect; they are as they were.
        thread: number of the connection, under which the binlog has the writes.
    """

    committed: bool
    counts: dict[tuple[Verb, TableName], int]
    conflicts: list[Conflict]
    thread: int


async def apply(
    writes: Iterable[RowWrite], url: str, session: tuple[str, ...], *, skip_changed: bool
) -> Applied:
    """Make writes in one transaction; each row is locked and compared before it is written.

    Args:
        writes: the writes, in their order.
        url: URL of the server.
        session: statements that the script begins with.
        skip_changed: leave out rows that differ, and commit the others. Otherwise nothing is
            committed if any row differs.

    Raises:
        DataLossError: a table's engine has no transactions, or a statement wrote other rows than
            those that were compared; nothing was written. Or the connection was lost in COMMIT.
        ServerError: the server refuses a statement; nothing was written.
        TransportError: the server cannot be reached; nothing was written.
    """
    counts: Counter[tuple[Verb, TableName]] = Counter()
    found: list[Conflict] = []
    engines: set[TableName] = set()
    async with _session(url, session) as connection:
        # Each check sees what was committed up to now, and locked rows stay as they are.
        await connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        await connection.query("START TRANSACTION")
        for group in grouped(writes):
            first = group[0]
            if first.name not in engines:
                await _check_engine(connection, first.name)
                engines.add(first.name)
            if keys := " OR ".join(f"({one.key})" for one in group if one.key):
                await connection.query(
                    f"SELECT COUNT(*) FROM {first.table} WHERE {keys} FOR UPDATE"  # noqa: S608 - values are quoted
                )
            differ = []
            for at in range(0, len(group), _AT_ONCE):
                differ += await _look(connection, group[at : at + _AT_ONCE])
            found += differ
            others = {id(one.write) for one in differ}
            rows = [one for one in group if id(one) not in others]
            if rows:
                counts[first.verb, first.name] += await _write(connection, rows)
        [[thread]] = await connection.query("SELECT CONNECTION_ID()", columns=1, rows=1)
        committed = bool(counts) and (skip_changed or not found)
        try:
            await connection.query("COMMIT" if committed else "ROLLBACK")
        except TransportError as error:
            raise DataLossError(
                f"{error}; whether it was committed is not known: run it again without --no-dry-run to see"
            ) from error
    return Applied(committed, dict(counts), found, int(thread))


async def _write(connection: SourceConnection, rows: list[RowWrite]) -> int:
    """Write rows in one statement, or in one each where their order matters to a unique key."""
    try:
        await connection.query(statement(rows))
    except ServerError as error:
        if error.errno != _DUPLICATE or len(rows) == 1:
            raise
        return sum([await _write(connection, [one]) for one in rows])
    [[count]] = await connection.query("SELECT ROW_COUNT()", columns=1, rows=1)
    if int(count) != len(rows):
        raise DataLossError(
            f"{'.'.join(rows[0].name)}: a statement of {len(rows)} rows changed {count}; nothing was written"
        )
    return len(rows)


async def _check_engine(connection: SourceConnection, name: TableName) -> None:
    found = await connection.query(
        "SELECT t.ENGINE FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE "
        "WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s AND e.TRANSACTIONS = 'YES'",
        name,
    )
    if not found:
        raise DataLossError(
            f"{'.'.join(name)}: its engine has no transactions, so that a half-done run could not be rolled back; "
            "nothing was written: review the script and run it yourself"
        )


async def side_effects(names: Iterable[TableName], url: str) -> list[str]:
    """Return a warning for each trigger and each cascading foreign key of tables.

    Raises:
        ServerError: the server refuses a query.
        TransportError: the server cannot be reached.
    """
    found = []
    async with await SourceConnection.open(parse_url(url)) as connection:
        for database, table in sorted(names):
            for name, timing, event in await connection.query(
                "SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION FROM information_schema.TRIGGERS "
                "WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s",
                (database, table),
                columns=3,
            ):
                found.append(
                    f"trigger {database}.{name} ({timing} {event} ON {database}.{table}) runs for the rows that this "
                    "changes; drop it first: what it changed then is in the binlog"
                )
            for name, child, on_delete, on_update in await connection.query(
                "SELECT CONSTRAINT_NAME, TABLE_NAME, DELETE_RULE, UPDATE_RULE FROM "
                "information_schema.REFERENTIAL_CONSTRAINTS "
                "WHERE UNIQUE_CONSTRAINT_SCHEMA = %s AND REFERENCED_TABLE_NAME = %s",
                (database, table),
                columns=4,
            ):
                rules = [
                    f"ON {event} {rule}"
                    for event, rule in (("DELETE", on_delete), ("UPDATE", on_update))
                    if rule in ("CASCADE", "SET NULL")
                ]
                if rules:
                    found.append(
                        f"foreign key {name} of {database}.{child} ({', '.join(rules)}): its rows that refer to "
                        f"{database}.{table} are not changed by this"
                    )
    return found
