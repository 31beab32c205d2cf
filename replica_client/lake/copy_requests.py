"""Requests to copy tables of a lake again, which a running pipeline takes between two steps.

A request is a file ``requests/NAME.json`` in the lake's directory. The pipeline removes it after it
saved the catalog: a crash in between copies the tables twice, which changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Final

from replica_client.lake.lake_catalog import LakeCatalog, TableEntry, new_id
from replica_client.rows.selection import Selection
from replica_client.storage.files import names_in, read_file, remove_files, write_file
from replica_client.storage.location import Location

REASON: Final = "its copy was asked for"
_SUFFIX: Final = ".json"


class CopyRequests:
    """The requests in a lake's directory; all methods block.

    Args:
        output: the lake's directory.
    """

    def __init__(self, output: Location) -> None:
        self._directory = output / "requests"

    def add(self, tables: Sequence[str]) -> None:
        """Request copies of tables by their names, ``*`` and ``?`` standing for parts of them.

        Raises:
            OSError: the request cannot be written.
            StorageError: likewise, in a store.
        """
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{new_id()}{_SUFFIX}"
        write_file(self._directory / name, json.dumps({"tables": list(tables)}).encode())

    def found(self) -> Mapping[str, Sequence[str]]:
        """Return the tables of each request by its name; of a malformed one, none.

        Raises:
            OSError: the requests cannot be read.
            StorageError: likewise, in a store.
        """
        requests: dict[str, Sequence[str]] = {}
        for name in names_in(self._directory):
            data = read_file(self._directory / name) if name.endswith(_SUFFIX) else None
            if data is None:
                continue
            try:
                requests[name] = [str(one) for one in json.loads(data)["tables"]]
            except (ValueError, KeyError, TypeError):
                requests[name] = []
        return requests

    def remove(self, names: Sequence[str]) -> None:
        """Remove requests.

        Raises:
            OSError: a request cannot be removed.
            StorageError: likewise, in a store.
        """
        remove_files(*(self._directory / name for name in names))


def tables_of(catalog: LakeCatalog, pattern: str) -> list[TableEntry]:
    """Return the tables of a lake that a pattern names, in any status."""
    wanted = Selection((pattern,)).for_server(catalog.history.lower_case_names)
    return [entry for entry in catalog.tables.values() if wanted.wants(*entry.table)]
