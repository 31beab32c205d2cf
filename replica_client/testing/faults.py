"""Scripted faults of a testing source.

Each fault says what happens and when; ``connection`` chooses one connection by its number (from
0), None: all. Byte counts are of what the source sends after the dump command, unless said
otherwise. Several faults work together.

Example::

    faults=[CutAt(1000, connection=0), Stall(after=500, seconds=2, connection=1)]
"""

from __future__ import annotations

from replica_client.protocol.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """Base of all faults."""

    def applies(self, connection: int) -> bool:
        """Return whether the fault applies to a connection."""
        wanted: int | None = getattr(self, "connection", None)
        return wanted is None or wanted == connection


@dataclass(frozen=True, slots=True)
class CutAt(Fault):
    """Close the connection after ``after`` bytes of the dump.

    Attributes:
        after: bytes that are still sent.
        reset: with a TCP reset instead of an orderly end.
        whole_connection: count from the greeting on.
        connection: see the module.
    """

    after: int
    reset: bool = False
    whole_connection: bool = False
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class CutInFile(Fault):
    """Close the connection once the bytes of a file before ``offset`` have been sent.

    It does not matter where the dump began; a dump that begins after the offset is not cut. It
    works only without compression.
    """

    file: str
    offset: int
    reset: bool = False
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class Stall(Fault):
    """Send nothing for a while, not even heartbeats; the connection stays open."""

    after: int = 0
    seconds: float = 3600.0
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class Drip(Fault):
    """Send in small pieces with a pause between them."""

    piece_size: int = 1
    pause: float = 0.0
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class WrongSequence(Fault):
    """Give the ``packet``-th packet of the dump (from 0) a wrong sequence number."""

    packet: int = 0
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class FlipByte(Fault):
    """Invert a byte of the ``event``-th event of the dump (from 0).

    ``offset`` counts from the event's first byte, or back from its end when negative: -1 is in its
    CRC.
    """

    event: int = 0
    offset: int = -1
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class SendError(Fault):
    """Send an ERR packet instead of the ``before_event``-th event of the dump (from 0)."""

    before_event: int = 0
    errno: int = 1236
    message: str = "scripted error"
    sqlstate: str = "HY000"
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class InjectEvent(Fault):
    """Send these event bytes (header to checksum) before the ``before_event``-th event."""

    data: bytes
    before_event: int = 0
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class SendBytes(Fault):
    """Send raw bytes in place of everything after ``after`` bytes of the dump, then close."""

    data: bytes
    after: int = 0
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class RefuseLogin(Fault):
    """Answer the login with an ERR packet; by default as for a wrong password."""

    errno: int = 1045
    message: str = "Access denied for user (using password: YES)"
    sqlstate: str = "28000"
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class SlowHandshake(Fault):
    """Wait before the greeting."""

    seconds: float = 1.0
    connection: int | None = None
