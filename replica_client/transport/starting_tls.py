"""Starting TLS on an open stream."""

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
    """Put TLS between a stream and its socket, and return the stream's new transport.

    Args:
        reader: of the stream.
        writer: of the stream.
        context: certificates, and the requirements for the peer.
        server_hostname: the server's name, on the client's side.

    Raises:
        ssl.SSLError: the peer does not meet the context's requirements.
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
        # The transport is None if the connection is lost in the loop iteration that ends the
        # handshake.
        for end in ends:
            end._transport = plain
        raise ConnectionResetError("the connection was lost as TLS began")
    ends[0]._transport = secure  # Python 3.11 keeps the old transport there
    transport: asyncio.Transport = secure
    return transport


async def start_tls_late(
    stream_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
) -> None:
    """Start TLS on a server's side, although the client's first TLS bytes were already read.

    Raises:
        ConnectionError: the client sent something else.
    """
    buffered: Any = stream_reader
    transport: Any = writer.transport
    transport.pause_reading()
    early = bytes(buffered._buffer)
    buffered._buffer.clear()
    plain = transport.get_protocol()
    starting = asyncio.create_task(start_tls(stream_reader, writer, context))
    try:
        while early and not starting.done():
            await asyncio.sleep(0)
            tls = transport.get_protocol()
            if tls is not plain and tls._transport is not None:
                view = tls.get_buffer(len(early))
                view[: len(early)] = early
                tls.buffer_updated(len(early))
                break
        await starting
    except OSError as error:
        raise ConnectionError(str(error)) from error
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
