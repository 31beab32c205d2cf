"""A table as it was, in a new DuckDB database."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

from replica_client.archive.as_of.table_state import TableState
from replica_client.errors import ConfigError
from replica_client.storage.durable import TEMPORARY, publish_file


def write_database(state: TableState, path: Path) -> int:
    """Make a database with the rows of a table as it was, in a table of its name.

    Args:
        state: the rows.
        path: of the database's file, where nothing is.

    Returns:
        how many rows there are.

    Raises:
        ConfigError: something is at the path.
        DataLossError: the rows to start from and the changes do not fit together; no file appears.
    """
    name = '"' + state.name.replace('"', '""') + '"'
    if path.exists():
        raise ConfigError(f"{path}: this file exists; name a new one, or remove it")
    # DuckDB opens a file by its name, so the file lies where no other user can put one.
    with tempfile.TemporaryDirectory(TEMPORARY, ".", path.parent) as directory:
        part = Path(directory, "database")
        with duckdb.connect(str(part)) as database:
            database.register("replica_client_rows", state.reader())
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM replica_client_rows")
            found = database.execute(f"SELECT count(*) FROM {name}").fetchone()
            database.unregister("replica_client_rows")
        publish_file(part, path)
    assert found is not None
    return int(found[0])
