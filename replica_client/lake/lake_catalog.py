"""What the lake knows of its tables, where their rows are, and how far it has taken the change log: one file.

It is replaced as a whole, after the tables' own commits; what it lacks after a crash is done again, and passed
over by the tables that have it. A table's rows stand in a directory of an id: names are entries here, so that
RENAME, an exchange of names and a new copy of a table are one writing of this file, on every storage. A
directory that an older catalog named and this one does not is removed after it was written.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import field
from typing import Any, Final, Literal, Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    PositionStoreError,
    StorageConflictError,
)
from replica_client.lake.parquet_files import make_directory
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.storage.durable import replace_file
from replica_client.storage.files import names_in, remove_tree
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import ObjectStore, ObjectVersion

FILE: Final = "catalog.json"
TABLES: Final = "tables"
"""Directory with a directory for each id."""

_FORMAT: Final = 2

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
        files: id of the directory with its rows; ``""`` for none.
        building: id of the directory in which the rows of that snapshot are put together; ``""`` for none.
        history: id of the directory with the versions of its rows; ``""`` for none.
        waiting: change files that are not merged into the rows, as JSON (:mod:`replica_client.lake.unmerged`).
        waiting_since: when the first of them came, in seconds since 1970.
        soft_deletes: whether deleted rows stay in its rows, marked.
        ended: ids of histories that ended, because the table was copied again or left out; the oldest first.
    """

    database: str
    name: str
    status: Status
    reason: str = ""
    model: TableModel | None = None
    copy: str = ""
    files: str = ""
    building: str = ""
    history: str = ""
    ended: tuple[str, ...] = ()
    waiting: list[Any] = field(default_factory=list)
    waiting_since: float = 0.0
    soft_deletes: bool = False

    @property
    def table(self) -> TableName:
        """Database and name."""
        return self.database, self.name

    def needs_copy(self, reason: str) -> None:
        """Mark the table for a new snapshot; an older one is no longer used."""
        self.status, self.reason = "copying", reason
        self.waiting = []
        self.copy, self.building = new_id(), ""

    def leave_out(self, reason: str) -> None:
        """Leave the table's rows out of the lake: rows that no longer change would look like current ones."""
        self.waiting = []
        self.status, self.reason, self.copy, self.files, self.building = (
            "left_out",
            reason,
            "",
            "",
            "",
        )

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON."""
        found = {"database": self.database, "name": self.name, "status": self.status}
        model = None if self.model is None else self.model.to_json()
        rest = {
            "reason": self.reason,
            "copy": self.copy,
            "files": self.files,
            "building": self.building,
            "history": self.history,
            "ended": list(self.ended),
            "waiting": self.waiting,
            "waiting_since": self.waiting_since if self.waiting else 0.0,
            "soft_deletes": self.soft_deletes,
            "model": model,
        }
        return {**found, **{key: value for key, value in rest.items() if value}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The entry that :meth:`to_json` gave."""
        members = dict(value)
        model = members.pop("model", None)
        ended = tuple(members.pop("ended", ()))
        self = cls(**members, ended=ended)
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
        pipeline: under which the tables count their steps; ``""`` while none has.
        tables: by database and name.
    """

    directory: Location
    step: int = -1
    history: SchemaHistory = field(default_factory=SchemaHistory)
    pipeline: str = ""
    tables: dict[TableName, TableEntry] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)  # ids of directories that may be there
    _version: ObjectVersion | None = None

    @classmethod
    def load(cls, directory: Location) -> Self | None:
        """The catalog of a lake; None where there is none.

        Raises:
            ConfigError: an older version of this package made it.
            PositionStoreError: it cannot be read.
        """
        where, version = directory / FILE, None
        try:
            if isinstance(where, ObjectUrl):
                data, version = ObjectStore(where).get()
            else:
                data = where.read_bytes()
            value = json.loads(data)
            if value["format"] == 1:
                raise ConfigError(
                    f"{where}: an older version made this lake, whose tables have directories of their names; "
                    "keep it for that version, and start over with another output"
                )
            if value["format"] != _FORMAT:
                raise ValueError(f"format {value['format']}")
            tables = [TableEntry.from_json(one) for one in value["tables"]]
            history = SchemaHistory.from_json(value["history"])
            found = {table.table: table for table in tables}
            pipeline = str(value.get("pipeline", ""))
            gone, step = set(value["gone"]), int(value["step"])
            self = cls(directory, step, history, pipeline, found, gone, version)
        except (FileNotFoundError, ObjectNotFoundError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PositionStoreError(
                f"{where} cannot be read ({error}); restore it from a backup, or start over in another "
                "directory"
            ) from None
        self._known |= self._named()
        return self

    def reload(self) -> None:
        """Forget what was not saved.

        Raises:
            PositionStoreError: it cannot be read.
        """
        saved = type(self).load(self.directory) or type(self)(self.directory)
        self.step, self.history = saved.step, saved.history
        self.tables.clear()
        self.tables.update(saved.tables)
        self._known = saved._known

    def save(self) -> None:
        """Replace the file, and remove the directories that it no longer names.

        Raises:
            PositionStoreError: it cannot be written.
            ConfigError: another process wrote it since it was loaded.
        """
        named = self._named()
        gone = self._known - named
        value = {
            "format": _FORMAT,
            "written": new_id(),  # so that no two writings are the same to a store
            "step": self.step,
            "pipeline": self.pipeline,
            "tables": [entry.to_json() for entry in self.tables.values()],
            "gone": sorted(gone),
            "history": self.history.to_json(),
        }
        where = self.directory / FILE
        data = json.dumps(value).encode()
        try:
            if isinstance(where, ObjectUrl):
                store, version = ObjectStore(where), self._version
                self._version = (
                    store.create("", data) if version is None else store.replace("", data, version)
                )
            else:
                make_directory(self.directory)
                replace_file(where, data, mode=0o666)
        except StorageConflictError:
            raise ConfigError(
                f"{where}: another pipeline wrote it; this one ends, and nothing of what it did since is seen"
            ) from None
        except OSError as error:
            raise PositionStoreError(f"{where}: {error.strerror}") from None
        for one in gone:
            remove_tree(self._directory(one))
        self._known = named

    def new_directory(self) -> str:
        """The id of a new directory; one that no entry names when the catalog is saved is removed then."""
        made = new_id()
        self._known.add(made)
        return made

    def _named(self) -> set[str]:
        entries = self.tables.values()
        return {
            one
            for entry in entries
            for one in (entry.files, entry.building, entry.history, *entry.ended)
            if one
        }

    def _directory(self, files: str) -> Location:
        return self.directory / TABLES / files

    def home(self, entry: TableEntry) -> Location:
        """The directory with the current rows of a table that has rows."""
        assert entry.files
        return self._directory(entry.files)

    def history_homes(self, entry: TableEntry) -> list[Location]:
        """The directories with the versions of a table's rows, the oldest first; the last may go on."""
        ids = (*entry.ended, entry.history)
        return [self._directory(one) for one in ids if one]

    def staging(self, entry: TableEntry) -> Location:
        """Where the rows of a table's snapshot are put together."""
        assert entry.building
        return self._directory(entry.building)

    def remove_unnamed(self) -> int:
        """Remove directories of tables that a crash left before the catalog named them; returns how many.

        Raises:
            OSError: they cannot be listed.
            StorageError: likewise, in a store.
        """
        unnamed = set(names_in(self.directory / TABLES)) - self._named()
        for name in unnamed:
            remove_tree(self._directory(name))
        return len(unnamed)

    def report(self) -> list[dict[str, str]]:
        """The tables that are not current, and why."""
        return [
            {"table": ".".join(entry.table), "status": entry.status, "reason": entry.reason}
            for entry in self.tables.values()
            if entry.status != "current"
        ]


def new_id() -> str:
    """A new, unique id."""
    return uuid.uuid4().hex[:16]
