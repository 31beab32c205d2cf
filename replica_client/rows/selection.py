"""Selection of tables and columns by patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from replica_client.errors import ConfigError
from replica_client.options import check_argument
from replica_client.protocol.codec.printable import did_you_mean
from replica_client.schema.history import SchemaHistory
from replica_client.schema.names import casefold_name

_PART: Final = re.compile(r"`((?:[^`]|``)*)`|([^`.,]+)|([.,])")
_WILDCARD: Final = re.compile(r"(?<!\|)(?:\|\|)*[%_]")
_KEPT: Final = 100_000

SERVERS_OWN: Final = ("mysql", "sys")
"""System databases, which are left out unless a pattern names them."""


class Pattern:
    """A pattern ``database.table``.

    ``*`` stands for any characters and ``?`` for one; text in backquotes stands for itself. A name
    with a dot or a comma needs them: ``` `my.db`.orders ```.

    Args:
        text: the pattern.
        option: name of its option, for the error.

    Raises:
        ConfigError: the pattern has no dot, or a backquote is not closed.
    """

    def __init__(self, text: str, option: str) -> None:
        self.text = text
        # Pieces of the expressions of database and table, separated by "*".
        parts: list[list[str]] = [[""]]
        at = 0
        while at < len(text):
            match = _PART.match(text, at)
            if match is None:
                raise ConfigError(f"{option}: pattern {text!r} has a backquote that is not closed")
            quoted, plain, mark = match.groups()
            if mark == "." and len(parts) == 1:
                parts.append([""])
            elif quoted is not None:
                parts[-1][-1] += re.escape(quoted.replace("``", "`"))
            else:
                first, *others = (
                    re.escape(one).replace(r"\?", ".") for one in (plain or mark).split("*")
                )
                parts[-1][-1] += first
                parts[-1] += others
            at = match.end()
        if len(parts) == 1:
            raise ConfigError(
                f"{option}: pattern {text!r} has no dot; write database.table, for example {text}.*"
            )
        self._parts = [_expression(one) for one in parts]
        self.like = _like(text)
        self.all_tables = self._parts[1] == ".*"
        self.own_database = next((own for own in SERVERS_OWN if self._parts[0] == own), None)
        self.database, self.table = (re.compile(one, re.DOTALL) for one in self._parts)

    def matches(self, database: str, table: str) -> bool:
        """Return whether a table's name matches the pattern."""
        return (
            self.database.fullmatch(database) is not None
            and self.table.fullmatch(table) is not None
        )

    def casefolded(self) -> Pattern:
        """Return the pattern for names in lower case."""
        other = Pattern(self.text, "")
        lowered = casefold_name(self._parts[0])
        other.own_database = next((own for own in SERVERS_OWN if lowered == own), None)
        other.database, other.table = (
            re.compile(casefold_name(part), re.DOTALL) for part in self._parts
        )
        return other


def _expression(pieces: list[str]) -> str:
    """Join literal pieces so that each ``*`` between them is tried once, for linear time."""
    first, *others = pieces
    if not others:
        return first
    middle = "".join(f"(?>.*?{one})" for one in others[:-1] if one)
    return f"{first}{middle}.*{others[-1]}"


class Selection:
    """A selection of tables by patterns, and of columns by table.

    A pattern is ``database.table`` with ``*`` and ``?``, matched with case, as servers on Linux do; see
    :class:`Pattern`. The server's own databases, ``mysql`` and ``sys``, are left out unless a pattern names
    them (``mysql.*``). For a server on which names are equal in any letter case
    (``lower_case_table_names``), use :meth:`casefolded`.

    Args:
        tables: patterns of wanted tables; None takes all.
        exclude: patterns of unwanted ones, applied after ``tables``.
        columns: wanted column names: a list for every table, or lists by table pattern.

    Raises:
        ConfigError: a pattern has no dot.

    Examples:
        >>> wanted = rc.Selection(["shop.*"], exclude=["shop.tmp_*"])
        >>> wanted.wants("shop", "orders"), wanted.wants("shop", "tmp_1")
        (True, False)
        >>> rc.Selection().wants("mysql", "user"), rc.Selection(["mysql.*"]).wants("mysql", "user")
        (False, True)
    """

    def __init__(
        self,
        tables: Sequence[str] | str | None = None,
        exclude: Sequence[str] | str | None = None,
        columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        for name, value in (("tables", tables), ("exclude", exclude), ("columns", columns)):
            if value is not None:
                check_argument(name, value)
        self._wanted = _compile(tables, "tables")
        self._unwanted = _compile(exclude, "exclude")
        self._columns: list[tuple[Pattern | None, frozenset[str]]] = []
        if isinstance(columns, Mapping):
            for pattern, names in columns.items():
                self._columns.append((Pattern(pattern, "columns"), frozenset(names)))
        elif columns is not None:
            self._columns.append((None, frozenset(columns)))
        self._also: tuple[str, str] | None = None
        self._casefolds = False
        self._casefolded: Self | None = None
        self._matched: set[str] = set()
        self._cache: dict[tuple[str, str], bool] = {}

    def casefolded(self) -> Self:
        """Return the selection for a server on which names are equal in any letter case."""
        if self._casefolded is not None:
            return self._casefolded
        other = type(self)()
        other._wanted = self._wanted and [one.casefolded() for one in self._wanted]
        other._unwanted = self._unwanted and [one.casefolded() for one in self._unwanted]
        other._columns = [(one and one.casefolded(), names) for one, names in self._columns]
        other._also = self._also and (casefold_name(self._also[0]), casefold_name(self._also[1]))
        other._casefolds = True
        other._matched = self._matched
        self._casefolded = other
        return other

    def including(self, database: str, table: str) -> Self:
        """Return the selection extended by all columns of one table."""
        other = type(self)()
        other._wanted, other._unwanted, other._columns = self._wanted, self._unwanted, self._columns
        other._matched = self._matched
        other._also = (database, table)
        return other

    def for_server(self, casefolds_names: bool | None) -> Self:
        """Return the selection for the names of a server: casefolded if the server casefolds them.

        Args:
            casefolds_names: whether names are equal in any letter case there; None: unknown.
        """
        return self.casefolded() if casefolds_names else self

    @property
    def selects_all(self) -> bool:
        """Whether no pattern selects tables; system databases are left out nevertheless."""
        return self._wanted is None and self._unwanted is None

    @property
    def chooses_columns(self) -> bool:
        """Whether columns of some table are left out."""
        return bool(self._columns)

    def wants(self, database: str, table: str) -> bool:
        """Return whether the table is wanted; cached per table."""
        key = (database, table)
        found = self._cache.get(key)
        if found is None:
            found = self._find(*self._as_compared(database, table))
            if len(self._cache) > _KEPT:
                self._cache.clear()
            self._cache[key] = found
        return found

    def _leaves_out(self, database: str) -> bool:
        """Return whether a database is a system database that no pattern names literally."""
        if database not in SERVERS_OWN or (self._also is not None and self._also[0] == database):
            return False
        return all(one.own_database != database for one in self._wanted or ())

    def _find(self, database: str, table: str) -> bool:
        also = (database, table) == self._also
        if self._leaves_out(database):
            return False
        if self._wanted is not None:
            matched = [one.text for one in self._wanted if one.matches(database, table)]
            self._matched.update(matched)
            if not matched:
                return also
        return also or not any(one.matches(database, table) for one in self._unwanted or ())

    def wants_database(self, database: str) -> bool:
        """Return whether tables of a database may be wanted."""
        (database,) = self._as_compared(database)
        if self._also is not None and database == self._also[0]:
            return True
        if self._leaves_out(database):
            return False
        if any(one.all_tables and one.database.fullmatch(database) for one in self._unwanted or ()):
            return False
        return self._wanted is None or any(one.database.fullmatch(database) for one in self._wanted)

    def wants_whole_database(self, database: str) -> bool:
        """Return whether all tables of a database are wanted."""
        (database,) = self._as_compared(database)
        if self._leaves_out(database):
            return False
        if any(one.database.fullmatch(database) for one in self._unwanted or ()):
            return False
        return self._wanted is None or any(
            one.all_tables and one.database.fullmatch(database) for one in self._wanted
        )

    def like_patterns(self) -> list[tuple[str, str]]:
        """Return patterns of SQL's LIKE for database and table.

        Every wanted table matches one of them; other tables may match, too.
        """
        if self._wanted is None:
            return [("%", "%")]
        also = [] if self._also is None else [_like(exact_pattern(*self._also))]
        return [one.like for one in self._wanted] + also

    def unmatched(self) -> list[str]:
        """Return the patterns of wanted tables that have matched no table so far."""
        return [one.text for one in self._wanted or () if one.text not in self._matched]

    def unmatched_tables(self) -> list[tuple[str, str]]:
        """Return the wanted tables that are named without wildcards and were not seen so far."""
        return [
            (_unescaped(database), _unescaped(table))
            for database, table in (
                one.like for one in self._wanted or () if one.text not in self._matched
            )
            if not _WILDCARD.search(database + table)
        ]

    def unmatched_of(self, history: SchemaHistory) -> list[str]:
        """Return the patterns that have matched no table so far, nor any of a history."""
        selection = self.for_server(history.lower_case_names)
        for name in history.known_tables():
            selection.wants(*name)
        return self.unmatched()

    def check_matched(
        self,
        history: SchemaHistory,
        others: Iterable[tuple[str, str]] = (),
        hint: str = "",
        *,
        found: str = "was read",
    ) -> None:
        """Refuse a pattern of wanted tables that has matched no table so far, nor any known table.

        Args:
            history: knows tables.
            others: names of more existing tables.
            hint: end of the message.
            found: what the message says that no such table was or is.

        Raises:
            ConfigError: the message has the pattern and the nearest table.
        """
        own = self.for_server(history.lower_case_names)
        known = {*history.known_tables(), *others}
        for name in known:
            own.wants(*name)
        for pattern in self.unmatched():
            names = {
                name
                for name in known.union(self._cache, own._cache)
                if name[0] not in SERVERS_OWN or own.wants_database(name[0])
            }
            near = did_you_mean(pattern, (".".join(name) for name in names))
            raise ConfigError(f"no table {pattern} {found}{near and '; '}{near}{hint}")

    def columns_of(self, database: str, table: str) -> frozenset[str] | None:
        """Return the names of a table's wanted columns; None means all."""
        database, table = self._as_compared(database, table)
        if (database, table) == self._also:
            return None
        for pattern, names in self._columns:
            if pattern is None or pattern.matches(database, table):
                return names
        return None

    def _as_compared(self, *names: str) -> Sequence[str]:
        return [casefold_name(name) for name in names] if self._casefolds else names


def _unescaped(text: str) -> str:
    """Return the text that a pattern for LIKE without wildcards stands for."""
    return re.sub(r"\|(.)", r"\1", text, flags=re.DOTALL)


def _like(text: str) -> tuple[str, str]:
    """Return a pattern for LIKE, with ``|`` as its escape character."""
    parts = [""]
    for quoted, plain, mark in _PART.findall(text):
        if mark == "." and len(parts) == 1:
            parts.append("")
            continue
        piece = re.sub(r"([|%_])", r"|\1", (quoted.replace("``", "`")) or plain or mark)
        parts[-1] += piece if quoted else piece.replace("*", "%").replace("?", "_")
    return parts[0], parts[-1]


def _compile(patterns: Sequence[str] | str | None, option: str) -> list[Pattern] | None:
    if patterns is None:
        return None
    if isinstance(patterns, str):
        patterns = split_patterns(patterns)
    return [Pattern(pattern, option) for pattern in patterns]


def exact_pattern(database: str, table: str) -> str:
    """Return the pattern that matches only one table."""
    return f"{quoted_name(database)}.{quoted_name(table)}"


def quoted_name(name: str) -> str:
    """Return a name in backquotes, which stands for itself in a pattern."""
    return f"`{name.replace('`', '``')}`"


def split_patterns(text: str) -> list[str]:
    """Split a text into patterns at commas outside backquotes."""
    found = re.findall(r"(?:`(?:[^`]|``)*`|[^,`]|`)+", text)
    return [part.strip() for part in found if part.strip()]
