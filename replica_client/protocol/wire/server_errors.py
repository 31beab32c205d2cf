"""Typed errors, with remedies, for ERR packets."""

from __future__ import annotations

from replica_client.errors import (
    AccessDeniedError,
    BinlogDisabledError,
    BinlogPurgedError,
    BinlogReadError,
    ServerError,
    ServerIdConflictError,
    UnknownBinlogError,
)
from replica_client.protocol.constants.client_server import ErrorCode
from replica_client.protocol.wire.packets import ErrPacket

_ACCESS_HINTS: dict[int, str] = {
    ErrorCode.ER_ACCESS_DENIED_ERROR: "check user, password and the host the account is for",
    ErrorCode.ER_ACCESS_DENIED_NO_PASSWORD_ERROR: "this account cannot log in with a password; use another",
    ErrorCode.ER_DBACCESS_DENIED_ERROR: "grant the account the database, or leave it out of the URL",
    ErrorCode.ER_HOST_NOT_PRIVILEGED: "create the account for this client's host",
    ErrorCode.ER_HOST_IS_BLOCKED: "run FLUSH HOSTS on the source",
    ErrorCode.ER_TABLEACCESS_DENIED_ERROR: "grant the account that privilege on the table",
    ErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR: (
        "grant the account REPLICATION SLAVE and REPLICATION CLIENT (MariaDB: BINLOG MONITOR)"
    ),
    ErrorCode.ER_NOT_SUPPORTED_AUTH_MODE: "the account requires an authentication plugin that was not used",
    ErrorCode.ER_PLUGIN_IS_NOT_LOADED: "the source lacks the account's authentication plugin",
    ErrorCode.ER_MUST_CHANGE_PASSWORD_LOGIN: "the password has expired; set a new one",
    ErrorCode.ER_CREDENTIALS_TO_EXPIRED_PASSWORD: "the password has expired; set a new one",
    ErrorCode.ER_SECURE_TRANSPORT_REQUIRED: "the source requires TLS: use tls=required or stricter",
    ErrorCode.ER_ACCOUNT_HAS_BEEN_LOCKED: "unlock the account with ALTER USER … ACCOUNT UNLOCK",
    ErrorCode.ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB: "unlock the account with ALTER USER … ACCOUNT UNLOCK",
}

# Error 1236 has many causes, which only its English text distinguishes. The first row whose words
# are all in the lower-case text decides.
_READ_CAUSES: tuple[tuple[tuple[str, ...], type[BinlogReadError], str], ...] = (
    (
        ("same server_uuid/server_id",),
        ServerIdConflictError,
        "another replica uses our server id or uuid; give each client its own server_id",
    ),
    (("same server id",), ServerIdConflictError, "give each client its own server_id"),
    (("purged",), BinlogPurgedError, "what is asked for is gone; take a new snapshot"),
    (("could not find gtid state",), BinlogPurgedError, "take a new snapshot"),
    (
        ("could not find first log",),
        UnknownBinlogError,
        "the source has no such binlog file (purged, or of another server); "
        "SHOW BINARY LOGS lists what it has",
    ),
    (
        ("client requested", "position"),
        UnknownBinlogError,
        "the file has no such position; SHOW BINARY LOGS lists the files' sizes",
    ),
    (("position > file size",), UnknownBinlogError, "SHOW BINARY LOGS lists the files' sizes"),
    (
        ("more gtids than",),
        BinlogReadError,
        "the source lacks transactions that we have: is it the right server?",
    ),
    (("not in the master's binlog",), BinlogReadError, "is it the right server?"),
    (
        ("gtid_mode", "off"),
        BinlogReadError,
        "the source has no GTIDs; start by file and position",
    ),
    (
        ("max_allowed_packet",),
        BinlogReadError,
        "raise max_allowed_packet on the source, or the start position is inside an event",
    ),
    (
        ("bogus data",),
        BinlogReadError,
        "the start position is inside an event, or the file is damaged",
    ),
)


TRANSIENT_ERRORS = frozenset(
    (
        ErrorCode.ER_CON_COUNT_ERROR,
        ErrorCode.ER_TOO_MANY_USER_CONNECTIONS,
        ErrorCode.ER_USER_LIMIT_REACHED,
        ErrorCode.ER_SERVER_SHUTDOWN,
        ErrorCode.ER_SERVER_OFFLINE_MODE,
        ErrorCode.ER_QUERY_INTERRUPTED,
        ErrorCode.ER_SESSION_WAS_KILLED,
        ErrorCode.ER_CONNECTION_KILLED_MARIADB,
        ErrorCode.ER_CLIENT_INTERACTION_TIMEOUT,
        ErrorCode.ER_LOCK_WAIT_TIMEOUT,
        ErrorCode.ER_LOCK_DEADLOCK,
        ErrorCode.ER_STATEMENT_TIMEOUT_MARIADB,
        ErrorCode.ER_QUERY_TIMEOUT,
    )
)
"""Errors that a retry may overcome: the server stops, is full, killed our session, or timed out."""

PRIVILEGE_ERRORS = frozenset(
    (
        ErrorCode.ER_DBACCESS_DENIED_ERROR,
        ErrorCode.ER_TABLEACCESS_DENIED_ERROR,
        ErrorCode.ER_COLUMNACCESS_DENIED_ERROR,
        ErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
        ErrorCode.ER_PROCACCESS_DENIED_ERROR,
    )
)
"""Refusals of a statement for a missing privilege; a refused login is not among them."""

NO_CATALOG_ERRORS = frozenset(
    (
        ErrorCode.ER_PARSE_ERROR,
        ErrorCode.ER_UNKNOWN_COM_ERROR,
        ErrorCode.ER_NOT_SUPPORTED_YET,
    )
)
"""Errors of a server without information_schema, such as one that only serves binlog files."""

UNKNOWABLE_ERRORS = PRIVILEGE_ERRORS | NO_CATALOG_ERRORS
"""The only errors that prove a question to the catalogue to have no answer."""

GONE_ERRORS = frozenset((ErrorCode.ER_NO_SUCH_TABLE, ErrorCode.ER_BAD_DB_ERROR))
"""Errors after a table was dropped or renamed."""

CHANGED_ERRORS = GONE_ERRORS | {ErrorCode.ER_BAD_FIELD_ERROR, ErrorCode.ER_TABLE_DEF_CHANGED}
"""Errors after a table was dropped, renamed or altered: earlier knowledge of it is outdated."""


def server_error(errno: int, sqlstate: str, message: str) -> ServerError:
    """Create the typed error for the fields of an ERR packet."""
    if errno in _ACCESS_HINTS:
        return AccessDeniedError(errno, sqlstate, message, _ACCESS_HINTS[errno])
    lowered = message.lower()
    if errno == ErrorCode.ER_SLAVE_SAME_ID_MARIADB:
        return ServerIdConflictError(
            errno,
            sqlstate,
            message,
            "another replica uses our server id; give each client its own server_id",
        )
    if errno == ErrorCode.ER_NO_BINARY_LOGGING or (
        errno == ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG and "not open" in lowered
    ):
        return BinlogDisabledError(
            errno, sqlstate, message, "the source writes no binlog; start it with --log-bin"
        )
    if errno in (
        ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
        ErrorCode.ER_GTID_POSITION_NOT_FOUND_IN_BINLOG,
    ):
        for words, kind, hint in _READ_CAUSES:
            if all(word in lowered for word in words):
                return kind(errno, sqlstate, message, hint)
        return BinlogReadError(errno, sqlstate, message)
    return ServerError(errno, sqlstate, message)


def server_error_of(payload: bytes) -> ServerError:
    """Create the typed error for an ERR packet's payload.

    Raises:
        MalformedPacketError: it is not an ERR packet.
    """
    packet = ErrPacket.decode(payload)
    return server_error(packet.errno, packet.sqlstate, packet.message)
