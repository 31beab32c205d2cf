"""A TCP proxy on loopback whose connections a test cuts."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

_BUFFER_SIZE = 65536


class CuttingProxy:
    """Forwards connections to a port; :meth:`cut` resets them, also in the middle of a packet.

    Args:
        target: port on loopback.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._refuses = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset all connections."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.shutdown(socket.SHUT_RDWR)
            self._open.clear()
            self.cuts += 1

    def refuse(self, refuses: bool) -> None:
        """Whether new connections are cut at once."""
        self._refuses = refuses

    def close(self) -> None:
        """No more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._refuses:
                    raise ConnectionError
                there = socket.create_connection(("127.0.0.1", self._target), 5)
            except OSError:
                here.close()
                continue
            with self._lock:
                self._open |= {here, there}
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            source.settimeout(None)
            target.settimeout(None)
            while data := source.recv(_BUFFER_SIZE):
                target.sendall(self._changed(data))
        with self._lock:
            self._open -= {source, target}
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _changed(self, data: bytes) -> bytes:
        """What is forwarded in place of what came."""
        return data
