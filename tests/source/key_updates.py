"""Changes the keys of a testing source's TLS 1.3 connections while they run.

Python's ssl has no call for it, so OpenSSL's own is used, on the connection inside Python's object.
"""

from __future__ import annotations

import _ssl
import ctypes
import ssl
import sys
from typing import Any

from replica_client.testing import BinlogSource

_REQUESTED = 1  # SSL_KEY_UPDATE_REQUESTED: the other side must change its keys, too
_KEY_UPDATE = 24  # handshake message (RFC 8446, 4)
# A PySSLSocket is the object's head, a reference, and OpenSSL's connection.
_CONNECTION_OFFSET = object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)


def why_not() -> str | None:
    """Why keys cannot be changed in this Python; None: they can."""
    if sys.implementation.name != "cpython" or ssl.OPENSSL_VERSION_INFO < (1, 1, 1):
        return "only CPython with OpenSSL 1.1.1 or newer"
    if not hasattr(_library(), "SSL_key_update"):
        return "this Python's OpenSSL is linked in without its names"
    return None


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(getattr(_ssl, "__file__", None))


class KeyUpdates:
    """Counts the key updates of a source's connections, and makes them.

    Attributes:
        sent: by the source.
        received: by the source, from clients.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.sent = 0
        self.received = 0
        self._update = _library().SSL_key_update
        self._update.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._update.restype = ctypes.c_int
        context._msg_callback = self._see

    def _see(
        self, connection: object, direction: str, version: Any, kind: Any, what: Any, data: bytes
    ) -> None:
        if kind == 22 and data[:1] == bytes([_KEY_UPDATE]):
            if direction == "write":
                self.sent += 1
            else:
                self.received += 1

    def order(self, source: BinlogSource) -> int:
        """Change the keys of all connections with what is sent next; says how many they are."""
        count = 0
        for session in source.sessions:
            tls: Any = session._writer.get_extra_info("ssl_object")
            if tls is None or tls.version() != "TLSv1.3":
                continue
            position = id(tls._sslobj) + _CONNECTION_OFFSET
            connection = ctypes.c_void_p.from_address(position).value
            assert self._update(connection, _REQUESTED) == 1
            count += 1
        return count
