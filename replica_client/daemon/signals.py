"""Signals: rows that somebody inserts into a table of the source to ask for snapshots, in Debezium's form.

The first three columns are an id, a type and a JSON document, whatever their names::

    INSERT INTO shop.signals VALUES ('again-1', 'execute-snapshot',
        '{"data-collections": ["shop.orders"], "type": "incremental",
          "additional-conditions": [{"data-collection": "shop.orders", "filter": "id > 1000"}]}');

``data-collections`` are names, or regular expressions of whole names. ``stop-snapshot`` ends what was asked for and is
not done: of all tables, or of those that it names. Every sink of the source takes a signal once, with the commit of the
transaction that has the row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.readers.transaction import Transaction
from replica_client.tables.table_copy import TableName

EXECUTE: Final = "execute-snapshot"
STOP: Final = "stop-snapshot"
_SELECT: Final = re.compile(r"\s*SELECT\s+\*\s+FROM\s+\S+\s+WHERE\s+(.*?)[\s;]*", re.I | re.S)
_ANY_SELECT: Final = re.compile(r"\s*SELECT\s", re.I)


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that was understood.

    Attributes:
        id: name of the request that it makes.
        kind: ``execute-snapshot`` or ``stop-snapshot``.
        tables: names ``database.table``, or regular expressions of them.
        conditions: the same, each with a condition in SQL of the rows that are wanted.
        blocking: the rows are marked as those of a first copy.
    """

    id: str
    kind: str
    tables: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...] = ()
    blocking: bool = False

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Self | None:
        """What an inserted row asks for; None: something else than a snapshot.

        Raises:
            ValueError: it is none; says why.
        """
        if len(row) < 3:
            raise ValueError("a table of signals has the columns id, type and data")
        name, kind, data = (_text(value) for value in row[:3])
        if kind not in (EXECUTE, STOP):
            return None
        try:
            document = json.loads(data or "{}")
        except (ValueError, RecursionError):
            raise ValueError("data is no JSON") from None
        if not isinstance(document, dict):
            raise ValueError("data is no JSON object")
        tables = _texts(document.get("data-collections", []), "data-collections")
        if kind == EXECUTE and not tables:
            raise ValueError("data-collections is missing")
        for text in tables:
            _compiled(text)
        way = str(document.get("type") or "incremental").lower()
        if way not in ("incremental", "blocking"):
            raise ValueError(
                f"the type of snapshot {way!r:.40} is neither incremental nor blocking"
            )
        conditions = tuple(_conditions(document.get("additional-conditions", [])))
        return cls(f"signal {name}", kind, tables, conditions, way == "blocking")

    @classmethod
    def of_gap(cls, transaction: Transaction) -> Self | None:
        """What asks for all tables where transactions are missing; None where none are."""
        if not any(one.kind == "gtid_gap" for one in transaction.losses):
            return None
        return cls(
            f"gap before {transaction.start.file}:{transaction.start.offset}", EXECUTE, (".*",)
        )

    @classmethod
    def from_state(cls, value: dict[str, Any]) -> Self:
        """What :meth:`to_state` gave."""
        conditions = tuple((str(one), str(where)) for one, where in value["conditions"])
        tables = tuple(map(str, value["tables"]))
        return cls(str(value["id"]), EXECUTE, tables, conditions, bool(value["blocking"]))

    def to_state(self) -> dict[str, object]:
        """As JSON value; of those that ask for a snapshot."""
        return {
            "id": self.id,
            "tables": list(self.tables),
            "conditions": [list(one) for one in self.conditions],
            "blocking": self.blocking,
        }

    def names(self, there: Iterable[TableName]) -> list[TableName]:
        """Which tables are meant, in the order of the signal."""
        known = sorted(set(there))
        found = {name: None for text in self.tables for name in known if _matches(text, name)}
        return list(found)

    def where(self, name: TableName) -> str:
        """The condition for a table's rows; empty: all."""
        return next((where for text, where in self.conditions if _matches(text, name)), "")

    def stops(self, name: TableName) -> bool:
        """Whether what was asked for of a table is to end."""
        return not self.tables or any(_matches(text, name) for text in self.tables)


class SignalTable:
    """The table of the source that has signals, as the stream brings it.

    Args:
        name: behind the transforms.
        shown: whether the sink wants it, too.
    """

    def __init__(self, name: TableName, shown: bool) -> None:
        self.name = name
        self._hides = not shown

    def signals(self, transaction: Transaction) -> Iterator[Signal | ValueError]:
        """What the rows of a transaction, or a part of one, ask for; an error for one that is not understood."""
        for rows in transaction.rows:
            if (rows.shape.database, rows.shape.table) != self.name:
                continue
            for change in rows:
                if change.before is not None or change.after is None:
                    continue
                try:
                    signal = Signal.of_row(tuple(change.after))
                except ValueError as error:
                    identifier = _text(change.after[0]) if len(change.after) else ""
                    yield ValueError(f"signal {identifier!r:.60}: {error}")
                else:
                    if signal is not None:
                        yield signal

    def hidden(self, transaction: Transaction) -> Transaction:
        """The transaction without the table, where the sink does not want it."""
        if not self._hides:
            return transaction
        rows = tuple(
            one for one in transaction.rows if (one.shape.database, one.shape.table) != self.name
        )
        if len(rows) < len(transaction.rows):
            transaction = transaction.with_rows(rows)
        changes = tuple(
            one for one in transaction.schema_changes if (one.database, one.table) != self.name
        )
        if len(changes) == len(transaction.schema_changes):
            return transaction
        shown = {one.event_index for one in changes}
        gone = {one.event_index for one in transaction.schema_changes} - shown
        statements = tuple(one for one in transaction.statements if one.event_index not in gone)
        return transaction.__replace__(schema_changes=changes, statements=statements)


def _conditions(found: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(found, list):
        raise ValueError("additional-conditions is no list")
    for one in found:
        if not isinstance(one, dict):
            raise ValueError("an additional condition is no JSON object")
        table, where = one.get("data-collection"), one.get("filter")
        if not isinstance(table, str) or not isinstance(where, str) or not where.strip():
            raise ValueError("an additional condition has a data-collection and a filter")
        _compiled(table)
        # Blocking snapshots have whole statements.
        if select := _SELECT.fullmatch(where):
            where = select[1]
        elif _ANY_SELECT.match(where):
            raise ValueError("a filter is a condition, or SELECT * FROM TABLE WHERE a condition")
        yield table, where


def _texts(found: Any, name: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{name} is no list of names")
    return tuple(one.strip() for one in found)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.strip())
    except (re.error, RecursionError):
        raise ValueError(f"{text!r:.60} is neither a name nor a regular expression") from None


def _matches(text: str, name: TableName) -> bool:
    whole = ".".join(name)
    return text == whole or _compiled(text).fullmatch(whole) is not None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
