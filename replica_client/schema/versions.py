"""Versions of a table's definition, the binlog positions they begin at, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from replica_client.errors import SchemaError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import file_order
from replica_client.schema.catalog import ABSENT, TableState, Unverified
from replica_client.schema.model import DatabaseModel, TableModel

Origin = Literal["ddl", "information_schema", "import", "not_understood"]


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
