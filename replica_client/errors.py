"""Every exception that replica_client raises.

::

    ReplicaClientError
    ├── ConfigError                 an option, URL or configuration file is wrong
    ├── ShortBufferError            a buffer ended early (inside codec; translated by its callers)
    ├── EncodeError                 a value or event cannot be written in the asked format
    ├── ProtocolError               the peer sent what the client/server protocol forbids
    │   ├── MalformedPacketError
    │   ├── PacketSequenceError
    │   ├── PacketTooLargeError
    │   └── UnexpectedPacketError
    ├── StreamStateError            a stream is not open yet, or was closed
    ├── ServerError                 the server answered with an ERR packet
    │   ├── AccessDeniedError       wrong password, missing privilege
    │   ├── BinlogDisabledError     the server writes no binlog
    │   └── BinlogReadError         error 1236 and its kin: the dump cannot be served
    │       ├── UnknownBinlogError  no such file or position
    │       ├── BinlogPurgedError   what was asked for was purged
    │       └── ServerIdConflictError  another replica uses our server id or uuid
    ├── TransportError
    │   ├── ConnectError
    │   │   └── UnknownHostError
    │   ├── ConnectionLostError
    │   │   └── StreamEndedError    the source ended a stream that should not end
    │   ├── TransportTimeoutError
    │   └── TlsError
    ├── SourceChangedError          the source is not what we read before: going on could lose changes
    │   ├── SourceBehindError       it lacks transactions that we have
    │   └── SourceResetError        its binlog was restarted
    ├── BinlogDecodeError           bytes of a binlog that cannot be decoded: says where
    │   ├── BinlogFormatError       not a binlog, or a version that is not known
    │   ├── TruncatedEventError
    │   ├── ChecksumMismatchError
    │   ├── UnsupportedEventError   known by name and carrying data, but not decodable
    │   ├── MissingTableMapError
    │   ├── ColumnDecodeError
    │   ├── EncryptedBinlogError    a key is needed, or the given one does not fit
    │   └── LimitExceededError      a configured size limit; its message names the option
    ├── GtidFormatError
    ├── PositionError
    │   ├── PositionFormatError
    │   └── PositionStoreError
    ├── SchemaError
    │   ├── UnknownTableError
    │   └── SchemaMismatchError   also a BinlogDecodeError: statements and table map disagree
    ├── BackupError                 a copy of a source's binlog files cannot go on
    │   ├── BackupGapError          the source no longer has the next events
    │   └── BackupMismatchError     the copy is not one of this source's files
    ├── DataLossError               a change to a captured table cannot be delivered as rows
    ├── StorageError                an object store refused, or could not be reached
    │   ├── ObjectNotFoundError     it has no such object
    │   └── StorageConflictError    another process wrote the object, or it is not the one that was read before
    ├── SpoolError                  rows that wait for their COMMIT cannot be kept in a temporary file
    └── SinkError                   a sink cannot be written; says whether trying again may help
        └── PoisonChangeError       one change can never be written there

Bytes from a peer can raise only :class:`ProtocolError` or :class:`ServerError` (from ``wire``) and
:class:`BinlogDecodeError` (from ``binlog`` and ``rows``). No message ever holds a secret.
"""

# Over 500 lines: every error of the package, and what a program gets to see of one.

from __future__ import annotations

import os
import re
from contextlib import ContextDecorator
from pathlib import Path
from typing import Final, Self

HIDDEN: Final = "***"
# A URL, or what was meant as one.
_SCHEME: Final = re.compile(r"(?<![a-z0-9+.])([a-z][a-z0-9+.-]{0,40})[:：]/{1,3}", re.IGNORECASE)
_USER: Final = re.compile(r"[^\s:：;/@＠?#\"'`\0]{0,200}")
_WORD: Final = re.compile(r"[^\s\0]{0,2000}")
_PORT: Final = re.compile(
    r"(?:[0-9]{1,4}|[1-6][0-9]{4}|port)?(?![^/?#,;:.)\]}>\"'`\s\0])", re.IGNORECASE
)
_VALUE: Final = re.compile(r"[^\s/?#,\"'`\0]{1,1000}")
_BLANK_FIRST: Final = re.compile(r"\s{1,3}[^\s\0@＠]{1,100}[@＠](?=[\w\[])")
_LATER: Final = re.compile(r"(?:(?!://)[^\0@＠]){1,200}[@＠](?=[\w\[])")
# Schemes in whose place of a path nothing has an @, and those where a user alone is a token.
_DATABASES: Final = re.compile(
    r"(?:mysql|mariadb|postgres(?:ql)?|rediss?|clickhouse)(?:\+\w+)?", re.IGNORECASE
)
_TOKENS: Final = re.compile(r"(?:https?|wss?|nats|tls)(?:\+\w+)?", re.IGNORECASE)
# An account without a scheme. A file's position with a GTID after @ has this form, too.
_ACCOUNT: Final = re.compile(
    r"(?<![^\s\"'`(=,/\0])[^\s:：/@＠?#\"'`\0]{0,200}[:：](?!/)"
    r"(?![0-9]+@(?:[0-9a-f]{8}-|[0-9]+-[0-9]+-))(?P<secret>[^\s\0]{1,1000}[@＠])",
    re.IGNORECASE,
)
_QUOTED: Final = r"'(?:[^'\\]|\\.|'')*'?|\"(?:[^\"\\]|\\.|\"\")*\"?"
_PARAMETER: Final = re.compile(
    r"(?:(?<![\w.%-])(?!unverified_password\b)[\w.%-]{0,60}"
    r"(?:passw(?:or)?d|pwd|secret|token|credentials?|signature|passphrase|(?<![a-z])(?:sas|pass|pw)(?![a-z])"
    r"|(?:access|api|account|private|encryption|shared|storage)[_-]?key)"
    r"[\w.%-]{0,40}(?:\s{0,3}=\s{0,3}|[\"']\s{0,3}[:=]\s{0,3})"
    r"|(?<=[?&;])(?:sig|key|code|auth|authorization|jwt|session)=|(?<![\w-])x-[\w-]{0,40}(?:key|token|auth)\s{0,3}[:=]\s{0,3}"
    r"|\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:bearer|basic|token|digest)\s{1,3})?(?=\S{8})(?![a-z]+\b\s)"
    r"|\b(?:set-)?cookie\s{0,3}:\s{0,3}(?=[\w.-]{1,60}=)"
    r"|\b(?-i:Bearer|Basic)\s{1,3}(?=[\w.~+/-]{0,200}[0-9A-Z_.~+/=-])"
    r"|\bidentified\s{1,3}(?:with\s{1,3}\S{1,64}\s{1,3})?(?:by|as|using)\s{1,3}(?:password\s{0,3}\(?\s{0,3})?(?=['\"]))"
    rf"(?P<secret>{_QUOTED}|(?:\\.|[^\s&\0])+)",
    re.IGNORECASE,
)
# What a value is when it is none: where it lies, or a place for one.
_NO_SECRET: Final = re.compile(r"[\"']?(?:file:|env:|\$|<|…|\.\.\.|\*\*\*)", re.IGNORECASE)
_END: Final = ":;,.)'\"]}"


def _in_url(text: str, scheme: str, start: int) -> tuple[int, int] | None:
    """Return where the password is in a URL whose text after the scheme starts at ``start``."""
    word = _WORD.match(text, start)
    user = _USER.match(text, start)
    assert word is not None and user is not None  # both match the empty text
    at = max(text.rfind("@", start, word.end()), text.rfind("＠", start, word.end()))
    sign, begin = text[user.end() : user.end() + 1], user.end() + 1
    if sign and sign in ":：":
        if at >= begin:
            return begin, at
        if first := _BLANK_FIRST.match(text, begin):
            return begin, first.end() - 1
        if scheme.lower() == "file" or _PORT.match(text, begin):
            return None
        # A password with a blank in it, or the host is missing.
        if later := _LATER.match(text, begin):
            return begin, later.end() - 1
        value = _VALUE.match(text, begin)
        return value and (begin, begin + len(value[0].rstrip(_END)))
    if sign and sign in "/;" and user[0] and at > begin and _DATABASES.fullmatch(scheme):
        return None if "=" in text[begin:at].partition("?")[2] else (begin, at)
    if sign and sign in "@＠" and _TOKENS.fullmatch(scheme):
        rest = re.search("[/?#]", text[start : word.end()])
        end = start + rest.start() if rest else word.end()
        return start, max(text.rfind("@", start, end), text.rfind("＠", start, end))
    return None


def secret_ranges(text: str) -> list[tuple[int, int]]:
    """Return where passwords lie in a text that may hold paths, URLs, DSNs and JDBC strings, or what was meant as one.

    They are the password of an account before a host (``user:password@host``, with any characters but blanks; in a URL
    with those, too), of a URL that lacks its host, a token that is a URL's user, and the values of parameters and
    headers whose names say that they are secret. A word is taken for a password rather than shown.
    """
    found = []
    for match in _SCHEME.finditer(text):
        if password := _in_url(text, match[1], match.end()):
            found.append(password)
    for match in _ACCOUNT.finditer(text):
        found.append((match.start("secret"), match.end("secret") - 1))
    for match in _PARAMETER.finditer(text):
        start, end = match.span("secret")
        if _NO_SECRET.match(text, start):
            continue
        if text[start] not in "'\"":
            end = start + (len(text[start:end].rstrip(_END)) or end - start)
        found.append((start, end))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def without_secrets(text: str) -> str:
    """Return a text with :data:`HIDDEN` in place of each password; see :func:`secret_ranges`."""
    parts, at = [], 0
    for start, end in secret_ranges(text):
        parts += [text[at:start], HIDDEN]
        at = end
    return "".join((*parts, text[at:])) if at else text


class ReplicaClientError(Exception):
    """Base of all errors of this package; its text shows no password of a URL or DSN."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_secrets(one) if isinstance(one, str) else one for one in args))


def install_command(extra: str) -> str:
    """Return the command that installs an extra: of the checkout that runs, or of the installed package."""
    checkout = Path(__file__).parents[1]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install '.[{extra}]' in {checkout}"
    return f"pip install 'replica-client[{extra}]'"


TRACEBACKS_VARIABLE: Final = "REPLICA_CLIENT_TRACEBACKS"
"""Set to ``full``, it keeps the frames of this package in tracebacks."""


def cut_traceback(error: BaseException | None) -> None:
    """Drop the frames of this package from the tracebacks of an error and its causes."""
    if os.environ.get(TRACEBACKS_VARIABLE):
        return
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


class _UserBoundary(ContextDecorator):
    """Context manager and decorator that cuts the traceback of this package's errors where a program gets them.

    The last frames of a traceback are then those of the program, which is where the mistake is.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: object
    ) -> None:
        if isinstance(error, ReplicaClientError):
            cut_traceback(error)


USER_BOUNDARY: Final = _UserBoundary()


class ConfigError(ReplicaClientError):
    """An option, a URL or a configuration file is wrong; the message names it and the remedy."""


class ShortBufferError(ReplicaClientError):
    """A buffer ended before a field did.

    ``codec`` raises it; ``wire`` and ``binlog`` translate it into their own typed errors.

    Attributes:
        offset: where in the buffer the field starts.
        needed: bytes that the field has.
        available: bytes that were left.
    """

    def __init__(self, offset: int, needed: int, available: int, what: str = "field") -> None:
        super().__init__(
            f"{what} at offset {offset} needs {needed} bytes, only {available} are left"
        )
        self.offset = offset
        self.needed = needed
        self.available = available


class EncodeError(ReplicaClientError):
    """A value or event cannot be written in the asked format."""


class ProtocolError(ReplicaClientError):
    """The peer sent data that the client/server protocol forbids."""


class MalformedPacketError(ProtocolError):
    """A packet's fields do not fit into it, or hold forbidden values."""


class PacketSequenceError(ProtocolError):
    """A packet's sequence number is not the next one."""


class PacketTooLargeError(ProtocolError):
    """A packet is larger than the configured limit; the message names the option."""


class UnexpectedPacketError(ProtocolError):
    """A well-formed packet came where the protocol does not allow it."""


class ServerError(ReplicaClientError):
    """The server answered with an ERR packet.

    Attributes:
        errno: the server's error number (``ER_…``).
        sqlstate: five characters, or ``""`` when the packet had none.
        message: the server's own text.
    """

    def __init__(self, errno: int, sqlstate: str, message: str, hint: str = "") -> None:
        text = f"server error {errno}" + (f" ({_visible(sqlstate)})" if sqlstate else "")
        text += f": {_visible(message)}"
        super().__init__(f"{text}; {hint}" if hint else text)
        self.errno = errno
        self.sqlstate = sqlstate
        self.message = message
        self.hint = hint


def _visible(text: str) -> str:
    """Return a server's text as one line without control characters, for a message of ours."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


class AccessDeniedError(ServerError):
    """Wrong user, password or host, or a missing privilege."""


class BinlogDisabledError(ServerError):
    """The server writes no binary log."""


class BinlogReadError(ServerError):
    """The server cannot serve the dump (error 1236 and its kin)."""


class UnknownBinlogError(BinlogReadError):
    """The server has no such binlog file or position."""


class BinlogPurgedError(BinlogReadError):
    """The asked file or GTIDs were purged from the server.

    Attributes:
        missing: the GTID intervals that are gone, as text, when known.
    """

    def __init__(
        self, errno: int, sqlstate: str, message: str, hint: str = "", missing: str = ""
    ) -> None:
        super().__init__(errno, sqlstate, message, hint)
        self.missing = missing


class ServerIdConflictError(BinlogReadError):
    """Another replica with our server id or uuid is connected to the source."""


class TransportError(ReplicaClientError):
    """The network connection failed."""


class ConnectError(TransportError):
    """No connection could be opened."""


class UnknownHostError(ConnectError):
    """The host name is not known."""


class ConnectionLostError(TransportError):
    """An open connection ended."""


class StreamStateError(ReplicaClientError, RuntimeError):
    """A stream was used before it was open, or after it was closed; the message shows the right order."""


class StreamEndedError(ConnectionLostError):
    """The source ended a stream in order, although the stream should follow it for ever."""


class TransportTimeoutError(TransportError):
    """A deadline passed; the message names it and the option that sets it."""


class TlsError(TransportError):
    """TLS could not be negotiated, or a certificate was refused."""


class SourceChangedError(ReplicaClientError):
    """The source is not the one that was read before, and where we were means nothing on it."""


class SourceBehindError(SourceChangedError):
    """The source lacks transactions that we have: it lags behind, or was reset.

    Attributes:
        missing: the GTID intervals that it lacks, as text.
    """

    def __init__(self, text: str, missing: str = "") -> None:
        super().__init__(text)
        self.missing = missing


class SourceResetError(SourceChangedError):
    """The source's binlog was restarted: the same file and offset are other events now."""


class BinlogDecodeError(ReplicaClientError):
    """Bytes of a binlog that cannot be decoded.

    Built where the fact is known; the decoder adds what it knows about the place with :meth:`at`.

    Attributes:
        reason: what is wrong, without the place.
        file: binlog file name, or None.
        position: offset of the event in the file, or None.
        event_type: type code, or None.
        event_name: the type's name, or None.
        offset: offset inside the event's body (after the common header), or None.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | None = None,
        position: int | None = None,
        event_type: int | None = None,
        event_name: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.position = position
        self.event_type = event_type
        self.event_name = event_name
        self.offset = offset

    def at(
        self,
        *,
        file: str | None = None,
        position: int | None = None,
        event_type: int | None = None,
        event_name: str | None = None,
        offset: int | None = None,
    ) -> Self:
        """Fill in what is still unknown about the place; returns itself."""
        self.file = file if self.file is None else self.file
        self.position = position if self.position is None else self.position
        self.event_type = event_type if self.event_type is None else self.event_type
        self.event_name = event_name if self.event_name is None else self.event_name
        self.offset = offset if self.offset is None else self.offset
        return self

    def __str__(self) -> str:
        parts = []
        if self.file:
            parts.append(f"file {self.file}")
        if self.position is not None:
            parts.append(f"position {self.position}")
        if self.event_type is not None:
            parts.append(f"event {self.event_name or 'type'} ({self.event_type})")
        if self.offset is not None:
            parts.append(f"offset {self.offset}")
        return f"{', '.join(parts)}: {self.reason}" if parts else self.reason


class BinlogFormatError(BinlogDecodeError):
    """Not a binlog, or a version that is not known."""


class TruncatedEventError(BinlogDecodeError):
    """An event or a file ends early."""


class ChecksumMismatchError(BinlogDecodeError):
    """An event's CRC-32 is not that of its bytes."""


class UnsupportedEventError(BinlogDecodeError):
    """An event that carries data and cannot be decoded; passing over it would lose changes."""


class MissingTableMapError(BinlogDecodeError):
    """A rows event names a table id that no TABLE_MAP event announced."""


class ColumnDecodeError(BinlogDecodeError):
    """A column's bytes in a row image are not a value of its type."""


class EncryptedBinlogError(BinlogDecodeError):
    """The file is encrypted, and no key, or one that does not fit, was given."""


class LimitExceededError(BinlogDecodeError):
    """A size limit was passed; the message names the option that sets it."""


class GtidFormatError(ReplicaClientError, ValueError):
    """A text or byte string is not a GTID or a GTID set."""


class PositionError(ReplicaClientError):
    """Base of errors about positions."""


class PositionFormatError(PositionError, ValueError):
    """A text, JSON value or file is not a position."""


class PositionStoreError(PositionError):
    """A position could not be read or saved; the message says where and why."""


class SchemaError(ReplicaClientError):
    """Base of errors about table shapes."""


class UnknownTableError(SchemaError):
    """The shape of a table is not known."""


class SchemaMismatchError(SchemaError, BinlogDecodeError):
    """A known shape does not fit the table map; the message shows both."""


class BackupError(ReplicaClientError):
    """A copy of a source's binlog files cannot go on; the copied files stay as they were."""


class BackupGapError(BackupError):
    """The source no longer has what comes next: it was purged, or the source was reset."""


class BackupMismatchError(BackupError):
    """The copy and the source's file of the same name differ, or the directory is not such a copy."""


class DataLossError(ReplicaClientError):
    """A change to a captured table cannot be delivered as rows (e.g. statement-format DML)."""


class StorageError(ReplicaClientError):
    """An object store refused a request, or could not be reached; the message names the object."""


class ObjectNotFoundError(StorageError):
    """An object store has no object of that name."""


class StorageConflictError(StorageError):
    """Another process wrote an object first, or it is not the object that was read before."""


class SpoolError(ReplicaClientError):
    """Rows that wait for their COMMIT cannot be kept in a temporary file: no room, or no access."""


class SinkError(ReplicaClientError):
    """A change could not be written where it should go.

    Attributes:
        retriable: whether the same may work later: a peer that is unavailable, a disk that is full.
    """

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


class PoisonChangeError(SinkError):
    """One change can never be written to a sink, such as a value that its table cannot hold.

    Attributes:
        event_index: the index of the change's event in its transaction.
        row_index: the index of the row in its event.
        file: binlog file of the event.
        position: offset of the event in the file.
        table_name: database and table of the row; None where they are not known.
    """

    def __init__(
        self,
        message: str,
        *,
        event_index: int,
        row_index: int,
        file: str = "",
        position: int = 0,
        table_name: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.table_name = table_name
        self.event_index = event_index
        self.row_index = row_index
        self.file = file
        self.position = position
