"""Begin TLS on a stream that is open."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any


async def start_tls(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    context: ssl.SSLContext,
    server_hostname: str | None = None,
) -> asyncio.Transport:
    """Put TLS between a stream and its socket; returns the stream's transport then.

    Args:
        reader: of the stream.
        writer: of the stream.
        context: certificates, and what is accepted.
        server_hostname: the server's name, on the client's side.

    Raises:
        ssl.SSLError: the peer does not do what the context wants.
        ConnectionResetError: the peer left.
    """
    plain = writer.transport
    ends: Any = (reader, writer)
    try:
        await writer.start_tls(context, server_hostname=server_hostname)
    except AttributeError:
        if writer.transport is not None:
            raise
    secure: Any = writer.transport
    if secure is None:
        # The loop has no transport where the connection is lost in the turn that ends the handshake.
        for end in ends:
            end._transport = plain
        raise ConnectionResetError("the connection was lost as TLS began")
    ends[0]._transport = secure  # Python 3.11 leaves the old one there
    transport: asyncio.Transport = secure
    return transport
