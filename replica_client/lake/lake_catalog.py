"""What the lake knows of its tables, and how far it has taken the change log: one file.

It is written whole or not at all, after the tables' own commits; what it lacks after a crash is done
again, and passed over by the tables that have it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from replica_client.errors import PositionStoreError
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.storage.durable import replace_file
from replica_client.storage.file_names import file_name, ignores_case

FILE = "catalog.json"
_FORMAT = 1

Status = Literal["current", "copying", "left_out"]
"""``current``: kept in step with the source; ``copying``: a snapshot is due or under way;
``left_out``: in the change log only, for the reason given."""


@dataclass(slots=True)
class TableEntry:
    """A table of the source.

    Attributes:
        database: its database.
        name: its name.
        status: see :data:`Status`.
        reason: why it is copied or left out.
        model: its definition in the lake; None while that is not known.
        copy: id of the snapshot that is due.
        building: whether the rows of that snapshot are being put together.
    """

    database: str
    name: str
    status: Status
    reason: str = ""
    model: TableModel | None = None
    copy: str = ""
    building: bool = False

    @property
    def table(self) -> TableName:
        """Database and name."""
        return self.database, self.name

    def needs_copy(self, reason: str) -> None:
        """A snapshot is due; an older one counts no more."""
        self.status, self.reason = "copying", reason
        self.copy, self.building = uuid.uuid4().hex[:16], False

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON."""
        found = {"database": self.database, "name": self.name, "status": self.status}
        model = None if self.model is None else self.model.to_json()
        rest = {"reason": self.reason, "copy": self.copy, "building": self.building, "model": model}
        return {**found, **{key: value for key, value in rest.items() if value}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The entry that :meth:`to_json` gave."""
        members = dict(value)
        model = members.pop("model", None)
        self = cls(**members)
        if model is not None:
            self.model = TableModel.from_json(self.database, self.name, model)
        return self


@dataclass
class LakeCatalog:
    """The tables, and how far they are.

    Attributes:
        directory: of the lake.
        step: how far the change log was taken; see :mod:`replica_client.lake.applier`.
        history: the source's definitions there.
        tables: by database and name.
        ignores_case: whether capital letters are escaped in names of directories; None: a new lake,
            whose file system is asked.
    """

    directory: Path
    step: int = -1
    history: SchemaHistory = field(default_factory=SchemaHistory)
    tables: dict[TableName, TableEntry] = field(default_factory=dict)
    ignores_case: bool | None = None

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """The catalog of a lake; None where there is none.

        Raises:
            PositionStoreError: it cannot be read.
        """
        path = directory / FILE
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if value["format"] != _FORMAT:
                raise ValueError(f"format {value['format']}")
            tables = [TableEntry.from_json(one) for one in value["tables"]]
            history = SchemaHistory.from_json(value["history"])
            escaped = bool(value.get("ignores_case", False))
            found = {table.table: table for table in tables}
            return cls(directory, int(value["step"]), history, found, escaped)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PositionStoreError(
                f"{path} cannot be read ({error}); restore it from a backup, or start anew in another "
                "directory"
            ) from None

    def save(self) -> None:
        """Write it, whole or not at all.

        Raises:
            PositionStoreError: it cannot be written.
        """
        value = {
            "format": _FORMAT,
            "step": self.step,
            "ignores_case": bool(self.ignores_case),
            "tables": [entry.to_json() for entry in self.tables.values()],
            "history": self.history.to_json(),
        }
        path = self.directory / FILE
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(value).encode(), mode=0o666)
        except OSError as error:
            raise PositionStoreError(f"{path}: {error.strerror}") from None

    def home(self, table: TableName) -> Path:
        """Where the current rows of a table are."""
        return self._within("tables", table)

    def staging(self, table: TableName) -> Path:
        """Where the rows of a table's snapshot are put together."""
        return self._within("building", table)

    def _within(self, part: str, table: TableName) -> Path:
        if self.ignores_case is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.ignores_case = ignores_case(self.directory)
        escaped = self.ignores_case
        names = (file_name(name, firm=True, ignores_case=escaped) for name in table)
        return self.directory.joinpath(part, *names)

    def report(self) -> list[dict[str, str]]:
        """The tables that are not current, and why."""
        return [
            {"table": ".".join(entry.table), "status": entry.status, "reason": entry.reason}
            for entry in self.tables.values()
            if entry.status != "current"
        ]
