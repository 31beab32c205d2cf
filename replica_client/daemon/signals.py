"""Signals: rows that somebody inserts into a table of the source to ask for snapshots, in Debezium's form.

Who may insert into that table is a stranger to the account that copies: a signal chooses among the tables and columns
that the sink gets anyway, and nothing else. The first three columns are an id, a type and a JSON document, whatever
their names::

    INSERT INTO shop.signals VALUES ('again-1', 'execute-snapshot',
        '{"data-collections": ["shop.orders"], "type": "incremental",
          "additional-conditions": [{"data-collection": "shop.orders", "filter": "id > 1000"}]}');

``data-collections`` are names, or patterns of whole names with ``*`` and ``?``; regular expressions are taken where
they say no more than such a pattern. A filter is a condition of :mod:`replica_client.rows.where` on the columns as the
sink gets them. It is SQL only where the configuration has ``signal_raw_filters = true``. ``stop-snapshot`` ends what
was asked for and is not done: of all tables, or of those that it names. Every sink of the source takes a signal once,
with the commit of the transaction that has the row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.daemon.migration.patterns import names_of
from replica_client.errors import ConfigError
from replica_client.readers.transaction import Transaction
from replica_client.rows.selection import Pattern
from replica_client.rows.where import parse_where
from replica_client.tables.table_copy import TableName

EXECUTE: Final = "execute-snapshot"
STOP: Final = "stop-snapshot"
SIGNAL: Final = "signal "
"""How the names of requests begin that signals make."""
MAX_SIZE: Final = 1 << 16
"""Characters of a signal's JSON."""
MAX_NAME: Final = 255
"""Characters of a signal's id."""
MAX_PATTERN: Final = 300
"""Characters of a name or pattern of tables: two names of 64 characters, each in backquotes and escaped."""
MAX_NAMES: Final = 1000
"""Names and patterns of a signal."""
MAX_WILD: Final = 20
"""Of these, patterns: each is compared with every table."""
_SELECT: Final = re.compile(r"SELECT\s+\*\s+FROM\s+\S+\s+WHERE\s+", re.I)
_ANY_SELECT: Final = re.compile(r"SELECT\s", re.I)
_OF_EXPRESSIONS: Final = frozenset("\\^()[]{}|+")


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that was understood.

    Attributes:
        id: name of the request that it makes.
        kind: ``execute-snapshot`` or ``stop-snapshot``.
        tables: names ``database.table``, or patterns of them.
        conditions: the same, each with a condition of the rows that are wanted.
        blocking: the rows are marked as those of a first copy.
        raw: the conditions are SQL.
    """

    id: str
    kind: str
    tables: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...] = ()
    blocking: bool = False
    raw: bool = False

    @classmethod
    def of_row(cls, row: tuple[Any, ...], *, raw: bool = False) -> Self | None:
        """Read an inserted row; None for one that asks for something else than a snapshot.

        Args:
            row: values of the table's columns.
            raw: filters are SQL.

        Raises:
            ValueError: it is none; says why.
        """
        if len(row) < 3:
            raise ValueError("a table of signals has the columns id, type and data")
        name, kind, data = (_text(value) for value in row[:3])
        if kind not in (EXECUTE, STOP):
            return None
        if len(name) > MAX_NAME or len(data) > MAX_SIZE:
            raise ValueError(
                f"an id has at most {MAX_NAME} characters, and data at most {MAX_SIZE}"
            )
        try:
            document = json.loads(data or "{}")
        except (ValueError, RecursionError):
            raise ValueError("data is no JSON") from None
        if not isinstance(document, dict):
            raise ValueError("data is no JSON object")
        tables = _texts(document.get("data-collections", []), "data-collections")
        if kind == EXECUTE and not tables:
            raise ValueError("data-collections is missing")
        way = str(document.get("type") or "incremental").lower()
        if way not in ("incremental", "blocking"):
            raise ValueError(
                f"the type of snapshot {way!r:.40} is neither incremental nor blocking"
            )
        conditions = tuple(_conditions(document.get("additional-conditions", []), raw=raw))
        _check_names([*tables, *(table for table, _ in conditions)])
        return cls(f"{SIGNAL}{name}", kind, tables, conditions, way == "blocking", raw)

    @classmethod
    def of_gap(cls, transaction: Transaction) -> Self | None:
        """What asks for all tables where transactions are missing; None where none are."""
        if not any(one.kind == "gtid_gap" for one in transaction.losses):
            return None
        return cls(
            f"gap before {transaction.start.file}:{transaction.start.offset}", EXECUTE, ("*.*",)
        )

    @classmethod
    def from_state(cls, value: dict[str, Any]) -> Self:
        """What :meth:`to_state` gave."""
        conditions = tuple((str(one), str(where)) for one, where in value["conditions"])
        tables = tuple(map(str, value["tables"]))
        # Before conditions had a grammar of their own, they were SQL.
        raw = bool(value.get("raw", bool(conditions)))
        return cls(str(value["id"]), EXECUTE, tables, conditions, bool(value["blocking"]), raw)

    def to_state(self) -> dict[str, object]:
        """As JSON value; of those that ask for a snapshot."""
        return {
            "id": self.id,
            "tables": list(self.tables),
            "conditions": [list(one) for one in self.conditions],
            "blocking": self.blocking,
            "raw": self.raw,
        }

    def names(self, there: Iterable[TableName]) -> list[TableName]:
        """Which tables are meant, in the order of the signal."""
        known = {".".join(name): name for name in sorted(set(there))}
        found: dict[TableName, None] = {}
        for text in self.tables:
            if text in known:
                found[known[text]] = None
            elif text.count(".") != 1 or is_wild(text):
                found |= {name: None for name in known.values() if _matches(text, name)}
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
        raw: filters are SQL.
    """

    def __init__(self, name: TableName, shown: bool, *, raw: bool = False) -> None:
        self.name, self._raw = name, raw
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
                    signal = Signal.of_row(tuple(change.after), raw=self._raw)
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


def _conditions(found: Any, *, raw: bool) -> Iterator[tuple[str, str]]:
    if not isinstance(found, list):
        raise ValueError("additional-conditions is no list")
    for one in found:
        if not isinstance(one, dict):
            raise ValueError("an additional condition is no JSON object")
        table, where = one.get("data-collection"), one.get("filter")
        if not isinstance(table, str) or not isinstance(where, str) or not where.strip():
            raise ValueError("an additional condition has a data-collection and a filter")
        # Blocking snapshots have whole statements.
        where = where.strip().rstrip("; \t\r\n")
        if select := _SELECT.match(where):
            where = where[select.end() :]
        elif _ANY_SELECT.match(where):
            raise ValueError("a filter is a condition, or SELECT * FROM TABLE WHERE a condition")
        if not raw:
            try:
                parse_where(where)
            except ConfigError as error:
                raise ValueError(
                    f"filter: {error}; filters are conditions as of changes --where, or SQL where the source has "
                    "signal_raw_filters = true"
                ) from None
        yield table.strip(), where


def _texts(found: Any, name: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{name} is no list of names")
    return tuple(one.strip() for one in found)


def _check_names(texts: list[str]) -> None:
    """Refuse names and patterns that would take long to compare, or say what no pattern can."""
    if len(texts) > MAX_NAMES or sum(map(is_wild, texts)) > MAX_WILD:
        raise ValueError(
            f"a signal names at most {MAX_NAMES} tables, and has at most {MAX_WILD} patterns"
        )
    for text in texts:
        _patterns(text)


def is_wild(text: str) -> bool:
    """Whether a text may stand for several tables."""
    return not text.replace(".", "").replace("_", "").replace("$", "").isalnum()


@lru_cache(maxsize=2 * MAX_NAMES)
def _patterns(text: str) -> tuple[Pattern, ...]:
    """Read a name, a pattern, or a regular expression that is not more than a pattern.

    No expression of the signal's author is ever compiled: one of a hundred characters can take years.
    """
    if len(text) > MAX_PATTERN:
        raise ValueError(f"a name or pattern of tables has at most {MAX_PATTERN} characters")
    try:
        found = names_of(text, 2)
        if found is not None:
            return tuple(Pattern(".".join(names), "data-collections") for names in found)
        if not _OF_EXPRESSIONS & set(text):
            return (Pattern(text, "data-collections"),)
    except ConfigError:
        pass
    raise ValueError(
        f"{text!r:.60} is neither DATABASE.TABLE nor a pattern of it with * and ?; of regular expressions those are "
        "taken that say no more, such as shop\\..* or shop\\.(orders|items)"
    )


def _matches(text: str, name: TableName) -> bool:
    if text == ".".join(name):
        return True
    try:
        return any(one.matches(*name) for one in _patterns(text))
    except ValueError:
        return False  # saved by an earlier release


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
