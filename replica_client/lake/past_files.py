"""Tables of a lake as they were, as Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from replica_client.errors import ConfigError
from replica_client.lake.config import load_config
from replica_client.lake.lake_past import LakePast
from replica_client.lake.lake_table import COPY_KEY
from replica_client.rows.selection import Selection


def write_past(
    config: str | os.PathLike[str], tables: Sequence[str], at: str, directory: Path
) -> Iterator[tuple[str, int]]:
    """Write tables of a lake as they were at a moment; yield the name and number of rows of each.

    Args:
        config: the pipeline's configuration file.
        tables: names; ``*`` and ``?`` stand for parts.
        at: the moment, see :meth:`~replica_client.lake.lake_past.LakePast.moment`.
        directory: directory for the files ``database.name.parquet``.

    Raises:
        ConfigError: no such table, or the lake does not have it as it was then.
        SinkError: a file cannot be read or written.
    """
    found = load_config(Path(config))
    past = LakePast(found.output, found.change_log)
    selection = Selection(tables=tables)
    names = sorted(name for name in past.tables() if selection.wants(*name))
    if not names:
        raise ConfigError(f"{', '.join(tables)}: no current table of this lake has such a name")
    moment = past.moment(at)
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        rows = past.read(name, moment)
        if COPY_KEY in rows.column_names:
            rows = rows.drop_columns([COPY_KEY])
        pq.write_table(rows, directory / f"{'.'.join(name).replace('/', '%2F')}.parquet")
        yield ".".join(name), rows.num_rows
