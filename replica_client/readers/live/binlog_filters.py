"""Binlog filters of a source (``binlog_do_db``, ``binlog_ignore_db``) and their consequences.

Rows are filtered by the database of their table, statements by the default database of their
session: with ``binlog_do_db=x`` the source does not log ``USE y; ALTER TABLE x.t …`` but still logs
the rows of ``x.t``. That is harmless if the table maps describe their rows
(``binlog_row_metadata=FULL``). Otherwise the definition derived from the binlog may differ from the
source's, and rows would be wrong without any sign.

So without FULL a stream of tables that a filter lets through is refused. Users who accept rows of
unproven tables (``on_unknown_table="positional"``, or ``unknown_table`` among the recorded losses)
get a warning instead.
"""

from __future__ import annotations

import logging
from typing import Final

from replica_client.errors import AccessDeniedError, ConfigError, ServerError
from replica_client.rows.selection import Selection
from replica_client.transport.connection import SourceConnection
from replica_client.transport.server_info import BinlogStatus
from replica_client.wire.server_errors import NO_CATALOG_ERRORS

_LOG: Final = logging.getLogger("replica_client")


async def check_filters(
    connection: SourceConnection, selection: Selection | None, *, may_be_unproven: bool = False
) -> None:
    """Refuse a source whose filters may hide changes of wanted tables, or warn.

    Args:
        connection: to the source.
        selection: the wanted tables; None: all.
        may_be_unproven: whether the user accepts rows of tables that are not proven.

    Raises:
        ConfigError: the filters may hide such statements, and the table maps do not describe their
            rows.
        ServerError: the source refuses the query, for another reason than a missing privilege.
    """
    address = connection.options.address
    try:
        status = await connection.binlog_status()
    except AccessDeniedError as error:
        _LOG.warning("%s: whether binlog filters hide statements is not known: %s", address, error)
        return
    except ServerError as error:
        if error.errno in NO_CATALOG_ERRORS:
            return
        raise
    if not status.filters:
        return
    said = f"{address} logs {status.filters}"
    if not hides_statements(status, selection):
        _LOG.warning("%s: changes of other databases are never seen", said)
        return
    if await row_metadata(connection) == "FULL":
        _LOG.warning("%s: changes of others are never seen", said)
        return
    reason = (
        f"{said}: it leaves out a statement that alters a wanted table from another default database, and rows after "
        "it would be read by the old definition; set binlog_row_metadata=FULL on the source (MySQL 8.0.1, MariaDB "
        "10.5), or remove the filters"
    )
    if may_be_unproven:
        _LOG.warning("%s", reason)
        return
    raise ConfigError(f"{reason}, or accept it with on_unknown_table=positional")


def hides_statements(status: BinlogStatus, selection: Selection | None) -> bool:
    """Return whether a source logs rows of wanted tables but may hide statements on them."""
    if selection is None or not status.do_databases:
        return bool(status.filters)
    wanted = selection.casefolded()
    return any(wanted.wants_database(name.lower()) for name in status.do_databases)


async def row_metadata(connection: SourceConnection) -> str:
    """Return ``binlog_row_metadata`` in capital letters; ``""`` if the server has none."""
    rows = await connection.query("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
    return str(rows[0][1]).upper() if rows and len(rows[0]) > 1 else ""
