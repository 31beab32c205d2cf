"""Command packets that a replica sends: builders and parsers.

Spec: MySQL "COM_BINLOG_DUMP", "COM_BINLOG_DUMP_GTID", "COM_REGISTER_SLAVE"; MariaDB KB
"COM_BINLOG_DUMP", "COM_REGISTER_SLAVE".
"""

from __future__ import annotations

from dataclasses import field

from replica_client.codec.quick_dataclass import dataclass
from replica_client.codec.reader import ByteReader
from replica_client.codec.writer import ByteWriter
from replica_client.constants.commands import Command
from replica_client.errors import EncodeError, MalformedPacketError
from replica_client.wire.fields import decoding, text
from replica_client.wire.framing import SEMI_SYNC_MAGIC

MAX_POSITION = 0xFFFFFFFF
"""The largest file position that COM_BINLOG_DUMP can ask for."""


def _body(payload: bytes, command: Command) -> ByteReader:
    if not payload or payload[0] != command:
        found = f"0x{payload[0]:02x}" if payload else "nothing"
        raise MalformedPacketError(f"{command.name} packet starts with {found}")
    return ByteReader(payload, 1)


@dataclass(frozen=True, slots=True)
class ComQuery:
    """An SQL statement: 0x03 and its text."""

    sql: bytes

    @classmethod
    def decode(cls, payload: bytes) -> ComQuery:
        """Read a payload; raises ``MalformedPacketError``."""
        return cls(_body(payload, Command.COM_QUERY).rest())

    def encode(self) -> bytes:
        """Return the payload."""
        return bytes([Command.COM_QUERY]) + self.sql


@dataclass(frozen=True, slots=True)
class ComRegisterSlave:
    """The announcement of a replica, so that ``SHOW REPLICAS`` lists it.

    Bytes::

        size  field              meaning
        1     command            0x15
        4     server_id
        1+n   host               what the replica calls itself (report_host)
        1+n   user
        1+n   password           always sent empty by us
        2     port
        4     replication_rank   ignored
        4     master_id          0: filled in by the source
    """

    server_id: int
    host: str = ""
    user: str = ""
    port: int = 0
    password: str = field(default="", repr=False)
    replication_rank: int = 0
    master_id: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> ComRegisterSlave:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = _body(payload, Command.COM_REGISTER_SLAVE)
        with decoding("COM_REGISTER_SLAVE"):
            server_id = reader.uint(4)
            host = text(reader.take(reader.uint(1)))
            user = text(reader.take(reader.uint(1)))
            password = text(reader.take(reader.uint(1)))
            port, rank, master = reader.uint(2), reader.uint(4), reader.uint(4)
            return cls(server_id, host, user, port, password, rank, master)

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(Command.COM_REGISTER_SLAVE, 1).uint(self.server_id, 4)
        for name in (self.host, self.user, self.password):
            encoded = name.encode()
            out.uint(len(encoded), 1).raw(encoded)
        out.uint(self.port, 2).uint(self.replication_rank, 4).uint(self.master_id, 4)
        return out.done()


@dataclass(frozen=True, slots=True)
class ComBinlogDump:
    """A request for events from a file position; MariaDB's GTID start uses it too.

    Bytes::

        offset  size  field      meaning
        0       1     command    0x12
        1       4     position   at least 4
        5       2     flags      :class:`~replica_client.constants.commands.DumpFlag`
        7       4     server_id
        11      rest  file       empty: the first file that the source has
    """

    file: str
    position: int
    server_id: int
    flags: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> ComBinlogDump:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = _body(payload, Command.COM_BINLOG_DUMP)
        with decoding("COM_BINLOG_DUMP"):
            position, flags, server_id = reader.uint(4), reader.uint(2), reader.uint(4)
            return cls(text(reader.rest().split(b"\0", 1)[0]), position, server_id, flags)

    def encode(self) -> bytes:
        """Return the payload.

        Raises:
            EncodeError: the position is beyond 4 GiB.
        """
        if self.position > MAX_POSITION:
            raise EncodeError(
                f"position {self.position} in {self.file or 'the first binlog file'} is beyond "
                f"{MAX_POSITION}, the largest that COM_BINLOG_DUMP can ask for: start by GTID set, or "
                "at the start of the file"
            )
        out = ByteWriter().uint(Command.COM_BINLOG_DUMP, 1).uint(self.position, 4)
        return out.uint(self.flags, 2).uint(self.server_id, 4).raw(self.file.encode()).done()


@dataclass(frozen=True, slots=True)
class ComBinlogDumpGtid:
    """A request for the transactions that a GTID set does not hold (MySQL >= 5.6.5).

    Bytes::

        size  field      meaning
        1     command    0x1E
        2     flags      :class:`~replica_client.constants.commands.DumpFlag`
        4     server_id
        4+n   file       normally empty: the source finds it
        8     position   4
        4+n   gtid_set   what the replica has, in the set's wire form (tagged or not)
    """

    gtid_set: bytes
    server_id: int
    file: str = ""
    position: int = 4
    flags: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> ComBinlogDumpGtid:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = _body(payload, Command.COM_BINLOG_DUMP_GTID)
        with decoding("COM_BINLOG_DUMP_GTID"):
            flags, server_id = reader.uint(2), reader.uint(4)
            file = text(reader.take(reader.uint(4)).split(b"\0", 1)[0])
            position = reader.uint(8)
            gtid_set = reader.take(reader.uint(4)) if reader.remaining else b""
            return cls(gtid_set, server_id, file, position, flags)

    def encode(self) -> bytes:
        """Return the payload."""
        file = self.file.encode()
        out = ByteWriter().uint(Command.COM_BINLOG_DUMP_GTID, 1).uint(self.flags, 2)
        out.uint(self.server_id, 4).uint(len(file), 4).raw(file).uint(self.position, 8)
        return out.uint(len(self.gtid_set), 4).raw(self.gtid_set).done()


@dataclass(frozen=True, slots=True)
class SemiSyncAck:
    """An acknowledgement to a semi-synchronous source of what is stored: 0xEF, position (8), file."""

    file: str
    position: int

    @classmethod
    def decode(cls, payload: bytes) -> SemiSyncAck:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = ByteReader(payload)
        with decoding("semi-synchronous acknowledgement"):
            if reader.uint(1) != SEMI_SYNC_MAGIC:
                raise MalformedPacketError("not a semi-synchronous acknowledgement")
            position = reader.uint(8)
            return cls(text(reader.rest().split(b"\0", 1)[0]), position)

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(SEMI_SYNC_MAGIC, 1).uint(self.position, 8)
        return out.raw(self.file.encode()).done()
