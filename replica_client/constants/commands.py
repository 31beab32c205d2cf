"""Command bytes and the flags of the dump commands.

Spec: MySQL ``enum_server_command`` (my_command.h), ``rpl_constants.h``; MariaDB KB "3-Binlog
Network Stream".
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Command(IntEnum):
    """The first byte of a command packet."""

    COM_QUIT = 0x01
    COM_INIT_DB = 0x02
    COM_QUERY = 0x03
    COM_STATISTICS = 0x09
    COM_PROCESS_KILL = 0x0C
    COM_PING = 0x0E
    COM_CHANGE_USER = 0x11
    COM_BINLOG_DUMP = 0x12
    COM_REGISTER_SLAVE = 0x15
    COM_SET_OPTION = 0x1B
    COM_BINLOG_DUMP_GTID = 0x1E
    COM_RESET_CONNECTION = 0x1F


class DumpFlag(IntFlag):
    """Flags of COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID.

    Three names share a bit: ``BINLOG_SEND_ANNOTATE_ROWS_EVENT`` is MariaDB's,
    ``BINLOG_THROUGH_POSITION`` (before 8.0) and ``USE_HEARTBEAT_EVENT_V2`` (>= 8.0.26) MySQL's.
    """

    BINLOG_DUMP_NON_BLOCK = 0x01
    BINLOG_SEND_ANNOTATE_ROWS_EVENT = 0x02
    BINLOG_THROUGH_POSITION = 0x02
    USE_HEARTBEAT_EVENT_V2 = 0x02
    BINLOG_THROUGH_GTID = 0x04
