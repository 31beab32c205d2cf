"""Requests for snapshots of tables: files in the state directory, which a running service picks up.

A request is a file ``ROUTE.snapshots/NAME.json``. It is removed when its rows are in the sink.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from replica_client.codec.quick_dataclass import dataclass
from replica_client.storage.durable import replace_file
from replica_client.tables.table_copy import TableName


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A snapshot request.

    Attributes:
        name: of the request.
        tables: names on the source.
        where: condition in SQL of the wanted rows; empty for all.
    """

    name: str
    tables: tuple[TableName, ...]
    where: str = ""


class SnapshotRequests:
    """The requests of a route; all methods block.

    Args:
        state: the state directory.
        route: ``source.sink``.
    """

    def __init__(self, state: Path, route: str) -> None:
        self.directory = state / f"{route}.snapshots"

    def add(self, tables: Sequence[TableName], where: str = "") -> SnapshotRequest:
        """Request a snapshot of tables; the request survives a crash."""
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
        request = SnapshotRequest(name, tuple(tables), where)
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"tables": [list(one) for one in tables], "where": where})
        replace_file(self._path(name), text.encode())
        return request

    def found(self) -> tuple[list[SnapshotRequest], list[str]]:
        """Return the requests, the oldest first, and the names of malformed files."""
        requests, damaged = [], []
        if not self.directory.is_dir():
            return [], []
        for path in sorted(self.directory.glob("*.json")):
            try:
                found = json.loads(path.read_bytes())
                tables = tuple((str(database), str(table)) for database, table in found["tables"])
                requests.append(SnapshotRequest(path.stem, tables, str(found["where"])))
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError):
                damaged.append(path.stem)
        return requests, damaged

    def has(self, name: str) -> bool:
        """Return whether a request is not done."""
        return self._path(name).exists()

    def remove(self, name: str) -> None:
        """Remove a request."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.json"
