"""Signals: requests in a table of the source.

The author of a signal need not be trusted: a signal chooses among the tables and columns that the
sink gets anyway, and nothing else. The first three columns are an id, a type and a JSON document,
whatever their names::

    INSERT INTO shop.signals VALUES ('again-1', 'execute-snapshot',
        '{"data-collections": ["shop.orders"], "type": "incremental",
          "additional-conditions": [{"data-collection": "shop.orders", "filter": "id > 1000"}]}');

``data-collections`` are names, or patterns of whole names with ``*`` and ``?``. Regular expressions
are accepted if such a pattern can express them. A filter is a condition of
:mod:`replica_client.rows.where` on the columns as the sink gets them. It is SQL only with
``signal_raw_filters = true`` in the configuration. ``stop-snapshot`` ends unfinished requests: of
all tables, or of those that it names. Every sink of the source handles a signal once, with the
commit of the transaction that has the row.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, Self

from replica_client.errors import ConfigError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.selection import Pattern, Selection
from replica_client.rows.where import parse_where
from replica_client.service.migration.migrated import names_of
from replica_client.sinks.protocol import CopyingSink
from replica_client.stream.tables.net_changes import CopyNeededError, Standing, TableName
from replica_client.stream.transactions.transaction import Transaction

EXECUTE: Final = "execute-snapshot"
STOP: Final = "stop-snapshot"
SIGNAL: Final = "signal "
"""Prefix of the names of requests made by signals."""
MAX_SIZE: Final = 1 << 16
"""Characters of a signal's JSON."""
MAX_NAME: Final = 255
"""Characters of a signal's id."""
MAX_PATTERN: Final = 300
"""Characters of a name or pattern of tables: two names of 64 characters, each in backquotes and escaped."""
MAX_NAMES: Final = 1000
"""Names and patterns of a signal."""
MAX_WILD: Final = 20
"""Patterns among these; each is compared with every table."""
MAX_ALTERNATIVES: Final = 100
"""Alternatives of all patterns, such as two in ``shop.(orders|items)``."""
_SELECT: Final = re.compile(r"SELECT\s+\*\s+FROM\s+\S+\s+WHERE\s+", re.I)
_ANY_SELECT: Final = re.compile(r"SELECT\s", re.I)
_OF_EXPRESSIONS: Final = frozenset("\\^()[]{}|+")


@dataclass(frozen=True, slots=True)
class Signal:
    """A parsed signal.

    Attributes:
        id: name of the resulting request.
        kind: ``execute-snapshot`` or ``stop-snapshot``.
        tables: names ``database.table``, or patterns of them.
        conditions: names or patterns, each with a condition for the wanted rows.
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
        """Parse an inserted row; return None if it requests something other than a snapshot.

        Args:
            row: values of the table's columns.
            raw: filters are SQL.

        Raises:
            ValueError: the row is no valid signal; the message says why.
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
            json.dumps(document, ensure_ascii=False).encode()  # half a surrogate is no text
        except (ValueError, RecursionError):
            raise ValueError("data is not JSON") from None
        if not isinstance(document, dict):
            raise ValueError("data is not a JSON object")
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
        """Return a signal for all tables if the transaction follows a gap; None otherwise."""
        if not any(one.kind == "gtid_gap" for one in transaction.losses):
            return None
        return cls(
            f"gap before {transaction.start.file}:{transaction.start.offset}", EXECUTE, ("*.*",)
        )

    @classmethod
    def from_state(cls, value: dict[str, Any]) -> Self:
        """Build a signal from a value of :meth:`to_state`."""
        conditions = tuple((str(one), str(where)) for one, where in value["conditions"])
        tables = tuple(map(str, value["tables"]))
        # Older releases had SQL conditions only.
        raw = bool(value.get("raw", bool(conditions)))
        return cls(str(value["id"]), EXECUTE, tables, conditions, bool(value["blocking"]), raw)

    def to_state(self) -> dict[str, object]:
        """Return the signal, which must request a snapshot, as JSON value."""
        return {
            "id": self.id,
            "tables": list(self.tables),
            "conditions": [list(one) for one in self.conditions],
            "blocking": self.blocking,
            "raw": self.raw,
        }

    def names(self, there: Iterable[TableName]) -> list[TableName]:
        """Return the tables that the signal means, in its order."""
        known = {".".join(name): name for name in sorted(set(there))}
        found: dict[TableName, None] = {}
        for text in self.tables:
            if text in known:
                found[known[text]] = None
            elif text.count(".") != 1 or is_wild(text):
                found |= {name: None for name in known.values() if _matches(text, name)}
        return list(found)

    def where(self, name: TableName) -> str:
        """Return the condition for a table's rows; empty: all rows."""
        return next((where for text, where in self.conditions if _matches(text, name)), "")

    def stops(self, name: TableName) -> bool:
        """Return whether this signal stops the requests for a table."""
        return not self.tables or any(_matches(text, name) for text in self.tables)


class SignalTable:
    """The table of the source that holds signals, as the stream delivers it.

    Args:
        name: its name after the transforms.
        shown: whether the sink gets the table, too.
        raw: filters are SQL.
    """

    def __init__(self, name: TableName, shown: bool, *, raw: bool = False) -> None:
        self.name, self._raw = name, raw
        self._hides = not shown

    def signals(self, transaction: Transaction) -> Iterator[Signal | ValueError]:
        """Yield the signals of a transaction, or a part of one; an error for each invalid one."""
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
        """Return the transaction without the table of signals, unless the sink wants the table."""
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
        raise ValueError("additional-conditions is not a list")
    for one in found:
        if not isinstance(one, dict):
            raise ValueError("an additional condition is not a JSON object")
        table, where = one.get("data-collection"), one.get("filter")
        if not isinstance(table, str) or not isinstance(where, str) or not where.strip():
            raise ValueError("an additional condition has a data-collection and a filter")
        # Filters of blocking snapshots are whole statements.
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
        raise ValueError(f"{name} is not a list of names")
    return tuple(one.strip() for one in found)


def _check_names(texts: list[str]) -> None:
    """Refuse names and patterns that are too many, or that no pattern can express."""
    wild = [text for text in texts if is_wild(text)]
    if len(texts) > MAX_NAMES or len(wild) > MAX_WILD:
        raise ValueError(
            f"a signal names at most {MAX_NAMES} tables, and has at most {MAX_WILD} patterns"
        )
    for text in texts:
        _patterns(text)
    if sum(len(_patterns(text)) for text in wild) > MAX_ALTERNATIVES:
        raise ValueError(f"the patterns of a signal have at most {MAX_ALTERNATIVES} alternatives")


def is_wild(text: str) -> bool:
    """Return whether a text may stand for several tables."""
    return not text.replace(".", "").replace("_", "").replace("$", "").isalnum()


@lru_cache(maxsize=2 * MAX_NAMES)
def _patterns(text: str) -> tuple[Pattern, ...]:
    """Parse a name, a pattern, or a regular expression that a pattern can express.

    Expressions of a signal are never compiled: one of a hundred characters can take years.
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


_LOG = logging.getLogger("replica_client.service")


class MirrorSignals:
    """The handler of a mirror's signals.

    The stream does not pass a signal before each of its tables has a copy that began after the
    signal, even after a crash.

    Args:
        route: its name, for messages.
        table: the table of signals.
        sink: open.
        wanted: the tables of the sink.
        copies: whether the sink copies tables at all.
        fail: called with each error message.
    """

    def __init__(
        self,
        route: str,
        table: SignalTable,
        sink: CopyingSink,
        wanted: Selection,
        *,
        copies: bool,
        fail: Callable[[str], None],
    ) -> None:
        self._route, self._table, self._sink = route, table, sink
        self._wanted, self._copies, self._fail = wanted, copies, fail

    def take(self, transaction: Transaction) -> Transaction:
        """Handle a transaction's signals; return the transaction without them.

        Raises:
            CopyNeededError: a signal requests copies that do not exist yet.
        """
        for signal in self._table.signals(transaction):
            if isinstance(signal, ValueError):
                self._refuse(str(signal))
            elif signal.kind == EXECUTE:
                self._copy(signal, transaction)
        return self._table.hidden(transaction)

    def _copy(self, signal: Signal, transaction: Transaction) -> None:
        names = signal.names({*self._sink.tables, *self._sink.copies})
        for text in signal.tables:
            database, _, table = text.partition(".")
            if (database, table) not in names and self._is_wanted(database, table):
                names.append((database, table))
        if not self._copies:
            return self._refuse(f"{signal.id}: snapshot = true is not set on this sink")
        if signal.conditions:
            return self._refuse(f"{signal.id}: a mirror copies whole tables, without a filter")
        if not names:
            return self._refuse(f"{signal.id}: the sink has no table of that name")
        if lacking := [name for name in names if not self._has_copy(name, transaction)]:
            raise CopyNeededError(
                f"{signal.id}: a copy of {len(lacking)} tables is asked for", lacking
            )
        return None

    def _is_wanted(self, database: str, table: str) -> bool:
        plain = table.replace("_", "").isalnum() and database.replace("_", "").isalnum()
        return plain and self._wanted.wants(database, table)

    def _has_copy(self, name: TableName, transaction: Transaction) -> bool:
        copy, at = self._sink.copies.get(name), transaction.start
        return copy is not None and copy.statement_at(at.file, at.offset) is Standing.BEFORE

    def _refuse(self, why: str) -> None:
        _LOG.error("%s: %s", self._route, why)
        self._fail(why)
