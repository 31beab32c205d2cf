"""Conditions of a query that the source looks at, too: it decodes and hands over less.

Spark looks at each row again, so that what is not understood here costs time only.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from replica_client.lake.source_options import SourceOptions
from replica_client.position.position import Position
from replica_client.rows.selection import quoted_name
from replica_client.spark.source.read_ranges import BinlogRange

_NAMES: Final = ("database", "table", "_file")
_TIME: Final = "_commit_timestamp"
_ORDER: Final[dict[type[Filter], Callable[[Any, Any], Any]]] = {
    EqualTo: pc.equal,
    EqualNullSafe: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_MOST_PATTERNS: Final = 1000


@dataclass(frozen=True)
class PushedFilters:
    """Conditions that all hold.

    Attributes:
        names: for some of ``database``, ``table`` and ``_file`` the values that are wanted.
        times: comparisons of the commit time.
    """

    names: tuple[tuple[str, frozenset[str]], ...] = ()
    times: tuple[tuple[type[Filter], datetime.datetime], ...] = ()

    @classmethod
    def of(cls, filters: Iterable[Filter], *, typed: bool) -> PushedFilters:
        """Return the filters of Spark that can be applied.

        Args:
            filters: of the query.
            typed: whether the query reads a table's own columns, of which some may be called
                ``database`` or ``table``.
        """
        known = _NAMES[2:] if typed else _NAMES
        names: dict[str, frozenset[str]] = {}
        times: list[tuple[type[Filter], datetime.datetime]] = []
        for one in filters:
            attribute: tuple[str, ...] = getattr(one, "attribute", ())
            value: Any = getattr(one, "value", None)
            if len(attribute) != 1 or value is None:
                continue
            name = attribute[0]
            if name in known and isinstance(one, EqualTo | EqualNullSafe | In):
                values = value if isinstance(one, In) else (value,)
                wanted = frozenset(text for text in values if isinstance(text, str))
                names[name] = names[name] & wanted if name in names else wanted
            elif name == _TIME and type(one) in _ORDER and _is_instant(value):
                times.append((type(one), value))
        return cls(tuple(sorted(names.items())), tuple(times))

    def __bool__(self) -> bool:
        return bool(self.names or self.times)

    def narrowed(self, source: SourceOptions) -> SourceOptions:
        """Return the options with unwanted tables left out, so that their rows are not decoded."""
        wanted = dict(self.names)
        if source.tables is not None or source.table is not None:
            return (
                source  # the user's own patterns; names may be written in another letter case there
            )
        databases, tables = wanted.get("database"), wanted.get("table")
        if (
            (databases is None and tables is None)
            or "" in (databases or ())
            or "" in (tables or ())
        ):
            return source  # what is of no table has names without a letter
        pairs = itertools.product(_sorted(databases), _sorted(tables))
        patterns = tuple(_pattern(*pair) for pair in itertools.islice(pairs, _MOST_PATTERNS + 1))
        if not 0 < len(patterns) <= _MOST_PATTERNS:
            return source
        return replace(source, tables=patterns)

    def may_have(self, part: BinlogRange) -> bool:
        """Return whether a range may have wanted rows.

        Rows lie in the files of their range, or before it: the commit of an XA transaction delivers
        earlier rows.
        """
        files = dict(self.names).get("_file")
        if files is None or not part.files:
            return True
        last = Position(part.files[-1].name, 0)
        return any(Position(file, 0) <= last for file in files)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that pass the filters."""
        for name, values in self.names:
            column = batch.column(name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            batch = batch.filter(pc.is_in(column, value_set=pa.array(sorted(values), column.type)))
        for kind, value in self.times:
            column = batch.column(_TIME)
            batch = batch.filter(_ORDER[kind](column, pa.scalar(value, column.type)))
        return batch


def _is_instant(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _sorted(names: frozenset[str] | None) -> list[str | None]:
    return [None] if names is None else [*sorted(names)]


def _pattern(database: str | None, table: str | None) -> str:
    return ".".join("*" if one is None else quoted_name(one) for one in (database, table))
