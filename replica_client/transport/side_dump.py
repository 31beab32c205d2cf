"""A second dump on a connection of its own, to look something up."""

from __future__ import annotations

from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import DEFAULT_HEARTBEAT_PERIOD, SourceConnection
from replica_client.transport.dump import DumpStream
from replica_client.transport.request import DumpRequest


async def open_dump(
    options: ConnectOptions,
    request: DumpRequest,
    *,
    server_id: int | None = None,
    heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD,
) -> DumpStream:
    """Connect to a source and begin a dump.

    Args:
        options: of the source.
        request: where the dump begins.
        server_id: server id of this dump; None: a random one. It must differ from that of a running
            dump, which the source would end.
        heartbeat_period: seconds without an event after which the source sends a heartbeat.

    Raises:
        TransportError: no connection, or it failed.
        ServerError: the source refuses.
        ConfigError: the request does not fit the source.
    """
    connection = await SourceConnection.open(options)
    return await connection.start_dump(
        request, server_id=server_id, heartbeat_period=heartbeat_period
    )
