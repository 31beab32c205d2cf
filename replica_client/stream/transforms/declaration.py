"""Declarations of transforms: a table of the configuration, or a mapping in Python.

================  ======================================================================================
key               meaning
================  ======================================================================================
``tables``        patterns ``database.table`` of the source's tables, in any letter case
``keep``          columns that stay unchanged; needed if others are hidden
``drop``          columns that are left out
``mask``          ``{ column = "text" }``: texts become this text, values of other types NULL
``truncate``      ``{ column = n }``: the first n characters stay
``hash``          columns that become HMAC-SHA-256 of their value, by ``key``
``tokenise``      columns whose letters and digits become others, by ``key``; the form stays
``replace``       ``{ column = ["regular expression", "replacement"] }``
``key``           of ``hash`` and ``tokenise``: at least 16 bytes
``rename``        ``{ column = "new name" }``
``where``         condition of the rows that are delivered, as for ``changes --where``
``route``         the new name, ``database.table``; ``{database}`` and ``{table}`` are the source's
``shard``         ``{ column = "text" }``: a column before the others, and first of the primary key, that
                  distinguishes tables which ``route`` merges; ``{database}`` and ``{table}`` as above
``soft_delete``   a column after the others, 0; a delete becomes an update that sets it to 1
``outbox``        ``true``, or the columns that direct the messages: ``id``, ``key``, ``route``, ``payload``, ``topic``,
                  ``headers``; see :class:`~replica_client.schema.shape.OutboxColumns`
================  ======================================================================================

Columns are selected by patterns (``*``, ``?``) in any letter case. **A column that neither ``keep``
nor a rule names is withheld**: a column that an ALTER adds stays hidden until somebody decides.
``keep = ["*"]`` delivers all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from replica_client.errors import ConfigError
from replica_client.rows.selection import Selection
from replica_client.rows.where import Condition, parse_where
from replica_client.schema.shape import OutboxColumns
from replica_client.stream.transforms.column_rules import (
    ColumnRule,
    hash_rule,
    mask_rule,
    replace_rule,
    tokenise_rule,
    truncate_rule,
)

_KEYS: Final = (
    *("tables", "keep", "drop", "mask", "truncate", "hash", "tokenise", "replace", "key"),
    *("rename", "where", "route", "shard", "soft_delete", "outbox"),
)
_OUTBOX: Final[Mapping[str, str]] = {
    "id": "id",
    "key": "aggregateid",
    "route": "aggregatetype",
    "payload": "payload",
    "topic": "outbox.event.{route}",
}
"""Defaults of an outbox: Debezium's names."""
_MAX_NAME: Final = 64
"""Characters of a name of a database or table."""
_MAX_SHARD: Final = 255
_OF_ALL: Final = ("tables", "key")
_MIN_KEY: Final = 16
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class TableTransform:
    """A checked transform.

    Attributes:
        number: number of the declaration, from 1, for messages.
        tables: the tables that it applies to.
        rules: rules for columns, by pattern.
        keep: patterns of columns that stay; None: all that have no rule.
        rename: new names of columns by their old ones, in lower case.
        where: condition of the rows that are delivered; None: all rows.
        route: template of the table's new name; None: the name stays.
        names_tables: whether its tables are named, and not described by patterns.
        shard: name and template of the column that distinguishes merged tables.
        soft_delete: name of the column that marks deleted rows.
        outbox: columns of the messages that rows become.
        summary: its tables and effects, for people; no values.
    """

    number: int
    tables: Selection = field(repr=False)
    rules: tuple[tuple[str, ColumnRule], ...] = field(default=(), repr=False)
    keep: tuple[str, ...] | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    where: Condition | None = None
    route: tuple[str, str] | None = None
    names_tables: bool = False
    shard: tuple[str, str] | None = None
    soft_delete: str | None = None
    outbox: OutboxColumns | None = None
    summary: str = ""

    @property
    def hides(self) -> bool:
        """Whether the transform hides columns."""
        return self.keep is not None

    @property
    def name(self) -> str:
        """The transform's name for messages."""
        return f"transform {self.number}"


def matches_column(pattern: str, column: str) -> bool:
    """Return whether a column's name matches a pattern."""
    return fnmatchcase(column.lower(), pattern.lower())


def read_transforms(tables: Sequence[Mapping[str, Any]]) -> tuple[TableTransform, ...]:
    """Read transforms from their declarations.

    Raises:
        ConfigError: one is wrong; says which, and what.
    """
    return tuple(_Reader(number, table).read() for number, table in enumerate(tables, 1))


class _Reader:
    def __init__(self, number: int, table: Mapping[str, Any]) -> None:
        self._number, self._table = number, table
        self._rules: list[tuple[str, ColumnRule]] = []

    def read(self) -> TableTransform:
        table = self._table
        if not isinstance(table, Mapping):
            raise ConfigError(f"transform {self._number}: it must be a table of keys")
        unknown = sorted(set(table) - set(_KEYS))
        if unknown:
            raise self._wrong(str(unknown[0]), f"not known; there are {', '.join(_KEYS)}")
        patterns = self._texts("tables")
        if not patterns:
            raise self._wrong("tables", "missing; patterns such as shop.users are wanted")
        self._read_rules()
        keep = self._texts("keep") if "keep" in table else None
        if self._rules and keep is None:
            raise self._wrong(
                "keep",
                "missing; name the columns that stay as they are: others are withheld, so that new ones show nothing "
                'until you decide (keep = ["*"] lets all others through)',
            )
        where = table.get("where")
        if where is not None and not isinstance(where, str):
            raise self._wrong("where", "it must be a condition, such as \"country = 'DE'\"")
        return TableTransform(
            self._number,
            Selection(patterns).casefolded(),
            tuple(self._rules),
            keep,
            self._rename(),
            None if where is None else parse_where(where),
            self._route(),
            not any("*" in one or "?" in one for one in patterns),
            self._shard(),
            self._soft_delete(),
            self._outbox(),
            f"{', '.join(patterns)}: {', '.join(key for key in _KEYS if key in table and key not in _OF_ALL)}",
        )

    def _read_rules(self) -> None:
        for column in self._texts("drop"):
            self._rules.append((column, ColumnRule("drop")))
        for column, text in self._mapping("mask").items():
            if not isinstance(text, str):
                raise self._wrong("mask", f"{column}: it must be a text")
            self._rules.append((column, mask_rule(text)))
        for column, count in self._mapping("truncate").items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise self._wrong("truncate", f"{column}: it must be a number of characters")
            self._rules.append((column, truncate_rule(count)))
        for column, pair in self._mapping("replace").items():
            self._rules.append((column, self._replacing(column, pair)))
        self._keyed("hash", hash_rule)
        self._keyed("tokenise", tokenise_rule)

    def _replacing(self, column: str, pair: object) -> ColumnRule:
        if not (isinstance(pair, Sequence) and len(pair) == 2) or isinstance(pair, str):
            raise self._wrong("replace", f'{column}: ["regular expression", "replacement"] wanted')
        pattern, replacement = pair
        try:
            compiled = re.compile(pattern)
            compiled.sub(replacement, "")
            re.compile(f"{pattern}|").sub(replacement, "")  # checks references to groups
        except (re.error, TypeError, IndexError) as error:
            raise self._wrong("replace", f"{column}: {error}") from None
        return replace_rule(compiled, replacement)

    def _keyed(self, name: str, make: Callable[[bytes], ColumnRule]) -> None:
        columns = self._texts(name)
        if not columns:
            return
        key = self._table.get("key")
        data = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else b""
        if len(data) < _MIN_KEY:
            raise self._wrong("key", f"{name} needs a key of at least {_MIN_KEY} bytes")
        rule = make(data)
        self._rules += [(column, rule) for column in columns]

    def _rename(self) -> dict[str, str]:
        found = {}
        for old, new in self._mapping("rename").items():
            if not isinstance(new, str) or not new:
                raise self._wrong("rename", f"{old}: it must be a name")
            found[old.lower()] = new
        return found

    def _route(self) -> tuple[str, str] | None:
        text = self._table.get("route")
        if text is None:
            return None
        if not isinstance(text, str) or text.count(".") != 1 or not all(text.split(".")):
            raise self._wrong("route", "it must be database.table")
        self._check_placeholders("route", text)
        database, _, table = text.partition(".")
        return database, table

    def _check_placeholders(self, key: str, text: str) -> None:
        for name in _PLACEHOLDER.findall(text):
            if name not in ("database", "table"):
                raise self._wrong(key, f"{{{name}}} is neither {{database}} nor {{table}}")

    def _shard(self) -> tuple[str, str] | None:
        found = self._mapping("shard")
        if not found:
            return None
        if "route" not in self._table:
            raise self._wrong("shard", "it needs route, the one table that others become")
        if len(found) != 1:
            raise self._wrong("shard", 'it must be one column: { column = "{database}" }')
        ((column, text),) = found.items()
        if not column or not isinstance(text, str) or not _PLACEHOLDER.search(text):
            raise self._wrong("shard", "it must be a text with {database} or {table} in it")
        self._check_placeholders("shard", text)
        if shard_length(text) > _MAX_SHARD:
            raise self._wrong("shard", f"values can have more than {_MAX_SHARD} characters")
        return column, text

    def _soft_delete(self) -> str | None:
        found = self._table.get("soft_delete")
        if found is not None and (not isinstance(found, str) or not found):
            raise self._wrong("soft_delete", "it must be the name of a new column")
        return found

    def _outbox(self) -> OutboxColumns | None:
        found = self._table.get("outbox", False)
        if isinstance(found, bool):
            found = {} if found else None
        if found is None:
            return None
        if not isinstance(found, Mapping):
            raise self._wrong("outbox", "it must be true, or a table of columns")
        headers = found.get("headers", {})
        texts = {name: text for name, text in found.items() if name != "headers"}
        unknown = sorted(set(texts) - set(_OUTBOX))
        if unknown:
            raise self._wrong(
                "outbox", f"{unknown[0]} is not known; there are {', '.join(_OUTBOX)}, headers"
            )
        if not isinstance(headers, Mapping):
            raise self._wrong("outbox", "headers must be { header = column }")
        for name, text in {**texts, **headers}.items():
            if not isinstance(text, str) or not text:
                raise self._wrong("outbox", f"{name}: it must be a text")
        if "id" in headers:
            raise self._wrong("outbox", "headers: id is the message's own")
        if "soft_delete" in self._table:
            raise self._wrong("outbox", "its deleted rows are not messages; remove soft_delete")
        made = {**_OUTBOX, **texts}
        for name in _PLACEHOLDER.findall(made["topic"]):
            if name != "route":
                raise self._wrong("outbox", f"topic: {{{name}}} is not {{route}}")
        return OutboxColumns(**made, headers=tuple(headers.items()))

    def _texts(self, name: str) -> tuple[str, ...]:
        found = self._table.get(name, ())
        if isinstance(found, str):
            found = [part.strip() for part in found.split(",")]
        if not isinstance(found, Sequence) or not all(isinstance(one, str) for one in found):
            raise self._wrong(name, "it must be a list of texts")
        return tuple(found)

    def _mapping(self, name: str) -> Mapping[str, Any]:
        found = self._table.get(name, {})
        if not isinstance(found, Mapping):
            raise self._wrong(name, "it must be { column = … }")
        return found

    def _wrong(self, key: str, text: str) -> ConfigError:
        return ConfigError(f"transform {self._number}: {key}: {text}")


def routed(route: tuple[str, str], database: str, table: str) -> tuple[str, str]:
    """Return the name that a route's template means for a table."""
    return filled(route[0], database, table), filled(route[1], database, table)


def filled(template: str, database: str, table: str) -> str:
    """Fill a table's names into a template."""
    names = {"database": database, "table": table}
    return _PLACEHOLDER.sub(lambda match: names[match[1]], template)


def shard_length(template: str) -> int:
    """Return how many characters values of a template can have."""
    return len(_PLACEHOLDER.sub("", template)) + _MAX_NAME * len(_PLACEHOLDER.findall(template))
