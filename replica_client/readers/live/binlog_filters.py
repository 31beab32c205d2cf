"""Binlog filters of a source (``binlog_do_db``, ``binlog_ignore_db``), and what follows from them.

Rows are filtered by the database of their table, statements by the default database of their session: with
``binlog_do_db=x`` the source does not log ``USE y; ALTER TABLE x.t …``, and goes on logging the rows of ``x.t``. Where
the table maps describe their rows (``binlog_row_metadata=FULL``) that does no harm. Elsewhere the definition that the
binlog leads to may be another one than the source's, and rows of it would be wrong without a sign.

The rule: without FULL, a stream of tables that a filter lets through is refused. Who has said that rows of unproven
tables may come (``on_unknown_table="positional"``, or ``unknown_table`` among the recorded losses) gets a warning
instead.
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
    """Refuse a source whose filters may hide statements that change wanted tables, or warn of them.

    Args:
        connection: to the source.
        selection: the wanted tables; None: all.
        may_be_unproven: whether the user takes rows of tables that are not proven.

    Raises:
        ConfigError: the filters may hide such statements, and the table maps do not describe their rows.
        ServerError: the source does not tell; for another reason than a missing privilege.
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
    """Return whether rows of wanted tables are logged by a source whose filters may hide statements on them."""
    if selection is None or selection.selects_all or not status.do_databases:
        return bool(status.filters)
    wanted = selection.casefolded()
    return any(wanted.wants_database(name.lower()) for name in status.do_databases)


async def row_metadata(connection: SourceConnection) -> str:
    """Return ``binlog_row_metadata`` in capital letters; ``""`` of a server that has none."""
    rows = await connection.query("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
    return str(rows[0][1]).upper() if rows and len(rows[0]) > 1 else ""
