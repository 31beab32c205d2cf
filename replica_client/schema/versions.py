"""Versions of a table's definition, the binlog positions they begin at, and their JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from replica_client.errors import SchemaError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.catalog import ABSENT, TableState, Unverified
from replica_client.schema.model import DatabaseModel, TableModel

_NUMBERED = re.compile(r"(.*\.)0*([0-9]{1,18})", re.DOTALL)
_EPOCH = re.compile(r"(.+?)-([0-9]{1,9})\.", re.DOTALL)

Origin = Literal["ddl", "information_schema", "import", "not_understood"]


@lru_cache(maxsize=64)
def split_file_name(file: str) -> tuple[str, int]:
    """Return a binlog file name's base, which rotation keeps, and its number.

    The result for ``binlog.000024`` is ``("binlog.", 24)``; a name without a number has 0.
    """
    match = _NUMBERED.fullmatch(file)
    return (match[1], int(match[2])) if match else (file, 0)


@lru_cache(maxsize=64)
def file_order(file: str) -> tuple[str, int]:
    """Return the text and the number by which the files of one source are ordered.

    A relay names the files of its second source ``binlog-2.000001`` and so on: they come after
    ``binlog.…``, and those of the tenth source after those of the ninth.
    """
    base, number = split_file_name(file)
    match = _EPOCH.fullmatch(base)
    return (base if match is None else f"{match[1]}.~{int(match[2]):09d}.", number)


class LogPosition(NamedTuple):
    """A position in the binlog; ordered by the file (:func:`file_order`), then by offset."""

    base: str
    number: int
    offset: int
    file: str

    @classmethod
    def of(cls, file: str, offset: int) -> LogPosition:
        """Return the position of an offset in a file."""
        return cls(*file_order(file), offset, file)

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """Return the position in a text ``file:offset``.

        Raises:
            SchemaError: the text is not a position.
        """
        file, _, offset = text.rpartition(":")
        if not offset.isdecimal() or not offset.isascii() or len(offset) > 20:
            raise SchemaError(f"not a place in a binlog: {text[:80]!r}")
        return cls.of(file, int(offset))

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Version:
    """A table's definition from a position on.

    Attributes:
        since: the position of the statement that made this version.
        state: the definition.
        origin: its source.
    """

    since: LogPosition
    state: TableState | None
    origin: Origin = "ddl"

    def to_json(self) -> dict[str, Any]:
        """Return the version as JSON, without the table's name."""
        found: dict[str, Any] = {"since": str(self.since), "origin": self.origin}
        if isinstance(self.state, TableModel):
            found["table"] = self.state.to_json()
        elif isinstance(self.state, Unverified):
            found["unverified"] = self.state.reason
        return found

    def json_text(self, *, defaults: bool = False) -> str:
        """Return :meth:`to_json` as compact text; the texts of columns are cached.

        Args:
            defaults: include the defaults and comments of columns.
        """
        if not isinstance(self.state, TableModel):
            return json.dumps(self.to_json(), separators=(",", ":"))
        head = json.dumps({"since": str(self.since), "origin": self.origin}, separators=(",", ":"))
        return f'{head[:-1]},"table":{self.state.json_text(defaults=defaults)}}}'

    @classmethod
    def from_json(cls, database: str, name: str, value: Mapping[str, Any]) -> Version:
        """Return the version that :meth:`to_json` saved.

        Raises:
            SchemaError: the value is not a valid version.
        """
        state: TableState = ABSENT
        if "table" in value:
            state = TableModel.from_json(database, name, value["table"])
        elif "unverified" in value:
            state = Unverified(str(value["unverified"]))
        return cls(LogPosition.parse(value["since"]), state, value.get("origin", "ddl"))


def databases_json(models: list[tuple[LogPosition, DatabaseModel]]) -> list[dict[str, Any]]:
    """Return the versions of a database as JSON."""
    return [
        {
            "since": str(since),
            "charset": model.charset,
            "complete": model.complete,
            **{
                name: value
                for name in ("changed_by", "last_charset")
                if (value := getattr(model, name)) is not None
            },
        }
        for since, model in models
    ]


def databases_of_json(value: Any) -> list[tuple[LogPosition, DatabaseModel]]:
    """Return the versions of a database that :func:`databases_json` saved."""
    return [
        (
            LogPosition.parse(one["since"]),
            DatabaseModel(
                one.get("charset"),
                bool(one.get("complete")),
                None if one.get("changed_by") is None else int(one["changed_by"]),
                one.get("last_charset"),
            ),
        )
        for one in value
    ]
