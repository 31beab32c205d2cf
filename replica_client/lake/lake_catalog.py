"""The catalog of a lake: its tables, the places of their rows, and the applied step, in one file.

The file is replaced as a whole, after the tables' own commits. Work that it lacks after a crash is
done again, and skipped by the tables that have it. A table's directory is named by an id: names are
entries here, so that RENAME, an exchange of names and a new copy of a table are one write of this
file, on every storage. A directory that an older catalog named and this one does not is removed
after the file was written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, Literal, Self

from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    PositionStoreError,
    StorageConflictError,
)
from replica_client.lake.parquet_files import make_directory
from replica_client.lake.pipeline_state import OutputInUseError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.storage.durable import replace_file
from replica_client.storage.files import names_in, remove_tree
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import ObjectStore, ObjectVersion

FILE: Final = "catalog.json"
TABLES: Final = "tables"
"""Directory that has a directory for each id."""

_FORMAT: Final = 2

Status = Literal["current", "copying", "left_out"]
"""``current``: kept up to date with the source; ``copying``: a snapshot is due or running;
``left_out``: in the change log only; the entry has the reason."""


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
        building: id of the directory in which the rows of that snapshot are assembled; ``""`` for
            none.
        history: id of the directory with the versions of its rows; ``""`` for none.
        waiting: change files that are not merged into the rows, as JSON
            (:mod:`replica_client.lake.unmerged`).
        waiting_since: when the first of them was written, in seconds since 1970.
        soft_deletes: whether deleted rows stay in its rows, marked.
        ended: ids of histories that ended, because the table was copied again or left out; the
            oldest first.
        lost: whether rows that could not be read caused its last copy.
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
    lost: bool = False

    @property
    def table(self) -> TableName:
        """Database and name."""
        return self.database, self.name

    def needs_copy(self, reason: str) -> None:
        """Mark the table for a new snapshot; an older one is no longer used."""
        self.status, self.reason, self.lost = "copying", reason, False
        self.waiting = []
        self.copy, self.building = new_id(), ""

    def leave_out(self, reason: str) -> None:
        """Remove the table's rows from the lake: rows that no longer change would look current."""
        self.waiting = []
        self.status, self.reason, self.copy, self.files, self.building = (
            "left_out",
            reason,
            "",
            "",
            "",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a dictionary of JSON values."""
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
            "lost": self.lost,
            "model": model,
        }
        return {**found, **{key: value for key, value in rest.items() if value}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return the entry from the dictionary of :meth:`to_json`."""
        members = dict(value)
        model = members.pop("model", None)
        ended = tuple(members.pop("ended", ()))
        self = cls(**members, ended=ended)
        if model is not None:
            self.model = TableModel.from_json(self.database, self.name, model)
        return self


@dataclass
class LakeCatalog:
    """The tables of a lake, and the step up to which the change log was applied.

    Attributes:
        directory: directory of the lake.
        step: the last applied step; see :mod:`replica_client.lake.log_versions`.
        history: the source's definitions at that step.
        pipeline: the pipeline under which the tables count their steps; ``""`` while none has.
        tables: entries by database and name.
        publish: called with the catalog when its file was written, before directories are removed.
    """

    directory: Location
    step: int = -1
    history: SchemaHistory = field(default_factory=SchemaHistory)
    pipeline: str = ""
    tables: dict[TableName, TableEntry] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)  # ids of directories that may exist
    _version: ObjectVersion | None = None
    publish: Callable[[LakeCatalog], None] | None = None

    @classmethod
    def load(cls, directory: Location) -> Self | None:
        """Read the catalog of a lake; return None where there is none.

        Raises:
            ConfigError: an older version of this package wrote it.
            PositionStoreError: the catalog cannot be read.
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
        """Discard all changes since the last save.

        Raises:
            PositionStoreError: the catalog cannot be read.
        """
        saved = type(self).load(self.directory) or type(self)(self.directory)
        self.step, self.history = saved.step, saved.history
        self.tables.clear()
        self.tables.update(saved.tables)
        self._known = saved._known

    def save(self) -> None:
        """Replace the file, and remove the directories that it no longer names.

        Raises:
            PositionStoreError: the file cannot be written.
            ConfigError: another process wrote it since it was loaded.
        """
        named = self._named()
        gone = self._known - named
        value = {
            "format": _FORMAT,
            "written": new_id(),  # so that a store never takes two writes for the same
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
            raise OutputInUseError(
                f"{where}: another pipeline wrote it; this one ends, and nothing of what it did since is seen"
            ) from None
        except OSError as error:
            raise PositionStoreError(f"{where}: {error.strerror}") from None
        if self.publish is not None:
            self.publish(self)
        for one in gone:
            remove_tree(self._directory(one))
        self._known = named

    def new_directory(self) -> str:
        """Return the id of a new directory; the next save removes it unless an entry names it."""
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
        """Return the directory with the current rows of a table."""
        assert entry.files
        return self._directory(entry.files)

    def history_homes(self, entry: TableEntry) -> list[Location]:
        """Return the directories of a table's histories, the oldest first; the last may go on."""
        ids = (*entry.ended, entry.history)
        return [self._directory(one) for one in ids if one]

    def staging(self, entry: TableEntry) -> Location:
        """Return the directory in which the rows of a table's snapshot are assembled."""
        assert entry.building
        return self._directory(entry.building)

    def remove_unnamed(self) -> int:
        """Remove directories that a crash left before the catalog named them; return how many.

        Raises:
            OSError: the directories cannot be listed.
            StorageError: the directories of a store cannot be listed.
        """
        unnamed = set(names_in(self.directory / TABLES)) - self._named()
        for name in unnamed:
            remove_tree(self._directory(name))
        return len(unnamed)

    def report(self) -> list[dict[str, str]]:
        """Return the tables that are not current, with their status and reason."""
        return [
            {"table": ".".join(entry.table), "status": entry.status, "reason": entry.reason}
            for entry in self.tables.values()
            if entry.status != "current"
        ]


def new_id() -> str:
    """Return a new, unique id."""
    return uuid.uuid4().hex[:16]
