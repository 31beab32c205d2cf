"""The databases that an account sees."""

from __future__ import annotations

from replica_client.transport.connection import SourceConnection
from replica_client.transport.hosts import parse_hosts

_DATABASES = """
SELECT DISTINCT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'
AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1
"""


async def visible_databases(url: str) -> list[str]:
    """Return the names of the databases with tables that the account may see, without the server's own.

    Raises:
        ServerError: the server refuses.
        TransportError: the connection failed.
    """
    async with await SourceConnection.open(parse_hosts(url)[0]) as connection:
        return [str(name) for (name,) in await connection.query(_DATABASES)]
