"""mysql_clear_password and MariaDB's dialog (PAM): the password itself, only to a verified server."""

from __future__ import annotations

from replica_client.errors import UnexpectedPacketError
from replica_client.wire.auth.plugin import ClientPlugin


class ClearPasswordClient(ClientPlugin):
    """Client side of mysql_clear_password."""

    name = "mysql_clear_password"

    def begin(self, scramble: bytes) -> bytes:
        """Return the NUL-terminated password."""
        return self._clear_password()


class DialogClient(ClientPlugin):
    """Client side of dialog: one question, answered with the password.

    A question starts with a byte: 2 or 4 for a prompt (visible or hidden answer), its lowest bit
    set for the last one. A second question cannot be answered by a program that has one password.
    """

    name = "dialog"

    def begin(self, scramble: bytes) -> bytes:
        """Return the NUL-terminated password, the answer to the first question."""
        return self._clear_password()

    def more(self, data: bytes) -> bytes | None:
        """Raise ``UnexpectedPacketError``: only one question can be answered."""
        raise UnexpectedPacketError(
            "the account's PAM service asks more than one question; only a password can be answered"
        )
