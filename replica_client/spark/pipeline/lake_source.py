"""The needs of a lake before its first copy: the tables, the start, and whole row images."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import ConfigError
from replica_client.lake.config import PipelineConfig
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import cannot_hold
from replica_client.lake.source_options import SourceOptions
from replica_client.readers.live.live_schema import read_source
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.snapshot import begin_between, low_watermark
from replica_client.snapshot.present_definitions import cascaded_tables
from replica_client.transport.connection import SourceConnection

CASCADED: Final = (
    "a foreign key changes its rows (CASCADE, SET NULL), and this source writes that into no binlog"
)


def prepare_lake(config: PipelineConfig) -> str:
    """Look at the source before the first run; makes the catalog.

    Returns:
        where the stream begins: everything before it is visible to every copy that is made later, and
        the tables look there as the catalog says.

    Raises:
        ConfigError: the source cannot be copied.
        ServerError: it refuses.
    """
    options = SourceOptions.parse(config.source)
    history, start, cascaded = asyncio.run(_look(options, config))
    catalog = LakeCatalog(config.output, history=history)
    selection = selection_of(options).for_server(history.lower_case_names)
    for name in history.tables():
        model = history.table(name)
        if isinstance(model, TableModel) and selection.wants(*name) and name[0] != "mysql":
            entry = TableEntry(*name, status="left_out", model=model)
            entry.reason = cannot_hold(model) or (CASCADED if name in cascaded else "")
            if not entry.reason:
                entry.needs_copy("its first copy")
            catalog.tables[name] = entry
    catalog.save()
    return start


async def _look(
    options: SourceOptions, config: PipelineConfig
) -> tuple[SchemaHistory, str, frozenset[TableName]]:
    assert options.connect is not None
    history, start = await read_source(options.connect, options.decode)
    async with await SourceConnection.open(options.connect) as connection:
        # From here on everything before the status' position is visible.
        if config.lake.locking == "brief":
            await begin_between(connection, "brief")
            await connection.query("ROLLBACK")
        else:
            await low_watermark(connection)
        selection = selection_of(options).for_server(history.lower_case_names)
        wanted = [name for name in history.tables() if selection.wants(*name)]
        cascaded = await cascaded_tables(connection, wanted)
    return history, f"{start.file}:{start.offset}", cascaded


def selection_of(options: SourceOptions) -> Selection:
    """Return the selection of tables of a pipeline."""
    return Selection(options.tables, options.exclude)


def check_image(config: PipelineConfig) -> None:
    """Refuse a live MariaDB that does not log whole rows.

    MySQL's MINIMAL and NOBLOB leave columns out of an UPDATE that it does not change; MariaDB's also those that a
    REPLACE gave their defaults.

    Raises:
        ConfigError: ``binlog_row_image`` is not FULL.
    """
    options = SourceOptions.parse(config.source)
    if options.connect is None:
        return
    image = asyncio.run(_row_image(options))
    if image and image not in ("FULL", "FULL_NODUP"):
        raise ConfigError(
            f"{options.connect.address} has binlog_row_image={image}: current tables need whole rows of MariaDB, as "
            "its REPLACE leaves out what gets its default; SET GLOBAL binlog_row_image = 'FULL', or current = false "
            "in [lake]"
        )


async def _row_image(options: SourceOptions) -> str:
    """Return ``binlog_row_image`` of a MariaDB source in capitals, or ``""`` for MySQL."""
    assert options.connect is not None
    async with await SourceConnection.open(options.connect) as connection:
        if connection.server.flavor != ServerFlavor.MARIADB:
            return ""
        rows: list[tuple[Any, ...]] = await connection.query(
            "SHOW GLOBAL VARIABLES LIKE 'binlog_row_image'"
        )
    return str(rows[0][1]).upper() if rows and len(rows[0]) > 1 else ""
