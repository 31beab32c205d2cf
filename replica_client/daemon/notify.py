"""Notifications to systemd: ``READY=1``, ``WATCHDOG=1`` and the like (``sd_notify(3)``)."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


class Notifier:
    """A sender of datagrams to the socket that systemd names; does nothing without one.

    Args:
        environment: holds ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC`` under systemd; None: the
            process's.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.get("NOTIFY_SOCKET", "")
        microseconds = environment.get("WATCHDOG_USEC", "")
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_seconds = int(microseconds) / 1e6 if microseconds.isdigit() and own else None

    def send(self, text: str) -> None:
        """Send assignments, one a line; ignore a socket that nobody reads."""
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            with contextlib.suppress(OSError):
                sender.sendto(text.encode(), address)
