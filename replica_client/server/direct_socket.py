"""Sending to a connection's socket without asyncio's copies of the bytes."""

from __future__ import annotations

import asyncio
import os
import socket

WHOLE = memoryview(b"")


class DirectSocket:
    """The sending half of a connection whose transport still reads.

    This is a second descriptor of the same socket: asyncio forbids writing to a transport's own.

    Args:
        sock: the transport's socket; the transport must have nothing left to send.
        write_timeout: seconds that the other side may take nothing; None: for ever.
    """

    def __init__(self, sock: socket.socket, write_timeout: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(fileno=os.dup(sock.fileno()))
        self._socket.setblocking(False)
        self._write_timeout = write_timeout

    def send_some(self, data: memoryview) -> memoryview:
        """Send what the socket takes at once; return the rest.

        Raises:
            ConnectionError: the connection is gone.
        """
        while data:
            try:
                data = data[self._socket.send(data) :]
            except (BlockingIOError, InterruptedError):
                return data
            except ConnectionError:
                raise
            except OSError as error:  # such as ETIMEDOUT of TCP_USER_TIMEOUT
                raise ConnectionAbortedError(str(error)) from error
        return WHOLE

    async def writable(self) -> None:
        """Wait until the socket takes more.

        Raises:
            ConnectionError: the client took nothing for too long.
        """
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(self._socket, _set, ready)
        try:
            async with asyncio.timeout(self._write_timeout):
                await ready
        except TimeoutError:
            raise ConnectionAbortedError("the client takes nothing") from None
        finally:
            self._loop.remove_writer(self._socket)

    def close(self) -> None:
        """Close this descriptor; the connection stays open."""
        self._socket.close()


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
