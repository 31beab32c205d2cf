"""mysql_clear_password and MariaDB's dialog (PAM): the password itself, only where nobody listens."""

from __future__ import annotations

from replica_client.errors import UnexpectedPacketError
from replica_client.wire.auth.plugin import Credentials, no_more, require_secure


class ClearPasswordClient:
    """Client side of mysql_clear_password."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def begin(self, scramble: bytes) -> bytes:
        """The NUL-ended password."""
        require_secure(self._credentials, "mysql_clear_password")
        return self._credentials.password + b"\0"

    def more(self, data: bytes) -> bytes | None:
        """This plugin has no second step."""
        raise no_more("mysql_clear_password")


class DialogClient:
    """Client side of dialog: one question, answered with the password.

    A question starts with a byte: 2 or 4 for a prompt (visible or hidden answer), its lowest bit
    set for the last one. A second question cannot be answered by a program that has one password.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._answered = False

    def begin(self, scramble: bytes) -> bytes:
        """The NUL-ended password, which answers the first question."""
        require_secure(self._credentials, "dialog")
        self._answered = True
        return self._credentials.password + b"\0"

    def more(self, data: bytes) -> bytes | None:
        """Refuses further questions."""
        raise UnexpectedPacketError(
            "the account's PAM service asks more than one question; only a password can be answered"
        )
