"""Which tables and columns are wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate

from replica_client.errors import ConfigError


class Selection:
    """Tables by pattern, minus others; columns by table.

    A pattern is ``database.table`` with ``*`` and ``?``, matched with case, as servers on Linux do.

    Args:
        tables: patterns of wanted tables; None takes all.
        exclude: patterns of unwanted ones, applied after ``tables``.
        columns: wanted column names: a list for every table, or lists by table pattern.

    Raises:
        ConfigError: a pattern has no dot.
    """

    def __init__(
        self,
        tables: Sequence[str] | str | None = None,
        exclude: Sequence[str] | str | None = None,
        columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._wanted = _compile(tables, "tables")
        self._unwanted = _compile(exclude, "exclude")
        self._columns: list[tuple[re.Pattern[str] | None, frozenset[str]]] = []
        if isinstance(columns, Mapping):
            for pattern, names in columns.items():
                self._columns.append((_pattern(pattern, "columns"), frozenset(names)))
        elif columns is not None:
            self._columns.append((None, frozenset(columns)))
        self._cache: dict[tuple[str, str], bool] = {}

    @property
    def selects_all(self) -> bool:
        """Whether every table is wanted."""
        return self._wanted is None and self._unwanted is None

    def wants(self, database: str, table: str) -> bool:
        """Whether the table is wanted; remembered per table."""
        key = (database, table)
        found = self._cache.get(key)
        if found is None:
            name = f"{database}.{table}"
            found = self._wanted is None or any(p.match(name) for p in self._wanted)
            if found and self._unwanted is not None:
                found = not any(p.match(name) for p in self._unwanted)
            if len(self._cache) > 100_000:
                self._cache.clear()
            self._cache[key] = found
        return found

    def columns_of(self, database: str, table: str) -> frozenset[str] | None:
        """Names of the wanted columns of a table; None means all."""
        name = f"{database}.{table}"
        for pattern, names in self._columns:
            if pattern is None or pattern.match(name):
                return names
        return None


def _compile(patterns: Sequence[str] | str | None, option: str) -> list[re.Pattern[str]] | None:
    if patterns is None:
        return None
    if isinstance(patterns, str):
        patterns = [part.strip() for part in patterns.split(",") if part.strip()]
    return [_pattern(pattern, option) for pattern in patterns]


def _pattern(text: str, option: str) -> re.Pattern[str]:
    if "." not in text:
        raise ConfigError(
            f"{option}: pattern {text!r} has no dot; write database.table, for example {text}.*"
        )
    return re.compile(translate(text.replace("`", "")))
