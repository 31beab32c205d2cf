"""Numbers of the client/server protocol: capabilities, commands, server status, error codes, flavors.

Spec: MySQL ``mysql_com.h`` ("Capabilities Flags"); MariaDB KB "Connecting", "Capabilities".

Spec: MySQL ``enum_server_command`` (my_command.h), ``rpl_constants.h``; MariaDB KB "3-Binlog
Network Stream".
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum
from functools import lru_cache
from types import MappingProxyType


class Capability(IntFlag):
    """The 32 flags of the MySQL protocol."""

    CLIENT_LONG_PASSWORD = 1 << 0
    CLIENT_FOUND_ROWS = 1 << 1
    CLIENT_LONG_FLAG = 1 << 2
    CLIENT_CONNECT_WITH_DB = 1 << 3
    CLIENT_NO_SCHEMA = 1 << 4
    CLIENT_COMPRESS = 1 << 5
    CLIENT_ODBC = 1 << 6
    CLIENT_LOCAL_FILES = 1 << 7
    CLIENT_IGNORE_SPACE = 1 << 8
    CLIENT_PROTOCOL_41 = 1 << 9
    CLIENT_INTERACTIVE = 1 << 10
    CLIENT_SSL = 1 << 11
    CLIENT_IGNORE_SIGPIPE = 1 << 12
    CLIENT_TRANSACTIONS = 1 << 13
    CLIENT_RESERVED = 1 << 14
    CLIENT_SECURE_CONNECTION = 1 << 15
    CLIENT_MULTI_STATEMENTS = 1 << 16
    CLIENT_MULTI_RESULTS = 1 << 17
    CLIENT_PS_MULTI_RESULTS = 1 << 18
    CLIENT_PLUGIN_AUTH = 1 << 19
    CLIENT_CONNECT_ATTRS = 1 << 20
    CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA = 1 << 21
    CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS = 1 << 22
    CLIENT_SESSION_TRACK = 1 << 23
    CLIENT_DEPRECATE_EOF = 1 << 24
    CLIENT_OPTIONAL_RESULTSET_METADATA = 1 << 25
    CLIENT_ZSTD_COMPRESSION_ALGORITHM = 1 << 26
    CLIENT_QUERY_ATTRIBUTES = 1 << 27
    MULTI_FACTOR_AUTHENTICATION = 1 << 28
    CLIENT_CAPABILITY_EXTENSION = 1 << 29
    CLIENT_SSL_VERIFY_SERVER_CERT = 1 << 30
    CLIENT_REMEMBER_OPTIONS = 1 << 31


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


class ServerStatus(IntFlag):
    """The status flags that a server sends about the session after a command."""

    SERVER_STATUS_IN_TRANS = 0x0001
    SERVER_STATUS_AUTOCOMMIT = 0x0002
    SERVER_MORE_RESULTS_EXISTS = 0x0008
    SERVER_QUERY_NO_GOOD_INDEX_USED = 0x0010
    SERVER_QUERY_NO_INDEX_USED = 0x0020
    SERVER_STATUS_CURSOR_EXISTS = 0x0040
    SERVER_STATUS_LAST_ROW_SENT = 0x0080
    SERVER_STATUS_DB_DROPPED = 0x0100
    SERVER_STATUS_NO_BACKSLASH_ESCAPES = 0x0200
    SERVER_STATUS_METADATA_CHANGED = 0x0400
    SERVER_QUERY_WAS_SLOW = 0x0800
    SERVER_PS_OUT_PARAMS = 0x1000
    SERVER_STATUS_IN_TRANS_READONLY = 0x2000
    SERVER_SESSION_STATE_CHANGED = 0x4000


class ErrorCode(IntEnum):
    """``ER_…`` numbers; where MySQL and MariaDB differ the name says which."""

    ER_CON_COUNT_ERROR = 1040
    ER_HANDSHAKE_ERROR = 1043
    ER_DBACCESS_DENIED_ERROR = 1044
    ER_ACCESS_DENIED_ERROR = 1045
    ER_UNKNOWN_COM_ERROR = 1047
    ER_BAD_DB_ERROR = 1049
    ER_SERVER_SHUTDOWN = 1053
    ER_BAD_FIELD_ERROR = 1054
    ER_PARSE_ERROR = 1064
    ER_UNKNOWN_ERROR = 1105
    ER_HOST_IS_BLOCKED = 1129
    ER_HOST_NOT_PRIVILEGED = 1130
    ER_TABLEACCESS_DENIED_ERROR = 1142
    ER_COLUMNACCESS_DENIED_ERROR = 1143
    ER_NO_SUCH_TABLE = 1146
    ER_NET_PACKET_TOO_LARGE = 1153
    ER_NET_PACKETS_OUT_OF_ORDER = 1156
    ER_NET_ERROR_ON_WRITE = 1160
    ER_NET_WRITE_INTERRUPTED = 1161
    ER_UNKNOWN_SYSTEM_VARIABLE = 1193
    ER_LOCK_WAIT_TIMEOUT = 1205
    ER_LOCK_DEADLOCK = 1213
    ER_TOO_MANY_USER_CONNECTIONS = 1203
    ER_USER_LIMIT_REACHED = 1226
    ER_SPECIFIC_ACCESS_DENIED_ERROR = 1227
    ER_MASTER_FATAL_ERROR_READING_BINLOG = 1236
    ER_NOT_SUPPORTED_AUTH_MODE = 1251
    ER_NOT_SUPPORTED_YET = 1235
    ER_QUERY_INTERRUPTED = 1317
    ER_PROCACCESS_DENIED_ERROR = 1370
    ER_CANT_ACTIVATE_LOG = 1378
    ER_NO_BINARY_LOGGING = 1381
    ER_TABLE_DEF_CHANGED = 1412
    ER_PLUGIN_IS_NOT_LOADED = 1524
    ER_CREDENTIALS_TO_EXPIRED_PASSWORD = 1820
    ER_MUST_CHANGE_PASSWORD_LOGIN = 1862
    ER_CONNECTION_KILLED_MARIADB = 1927
    ER_MISSING_SKIP_SLAVE = 1947
    ER_STATEMENT_TIMEOUT_MARIADB = 1969
    ER_GTID_POSITION_NOT_FOUND_IN_BINLOG = 1955
    ER_ACCESS_DENIED_NO_PASSWORD_ERROR = 1698
    ER_SECURE_TRANSPORT_REQUIRED = 3159
    ER_ACCOUNT_HAS_BEEN_LOCKED = 3118
    ER_QUERY_TIMEOUT = 3024
    ER_SERVER_OFFLINE_MODE = 3032
    ER_SESSION_WAS_KILLED = 3169
    ER_CLIENT_INTERACTION_TIMEOUT = 4031
    ER_SLAVE_SAME_ID_MARIADB = 4052
    ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB = 4151


class ServerFlavor(StrEnum):
    """The two families of servers; their protocols differ in GTIDs, SQL and event types."""

    MYSQL = "mysql"
    MARIADB = "mariadb"

    @classmethod
    def of_version(cls, server_version: str) -> ServerFlavor:
        """Return the flavor that a version text names (``5.5.5-10.11.6-MariaDB-log``, ``9.7.4``)."""
        return _of_version(server_version)


@lru_cache(maxsize=64)
def _of_version(server_version: str) -> ServerFlavor:
    is_mariadb = "mariadb" in server_version.lower()
    return ServerFlavor.MARIADB if is_mariadb else ServerFlavor.MYSQL


# The character sets of collation ids.
#
# Table maps, result set columns, handshakes and query status variables name a collation by number; its
# character set is all that decoding needs. The ids come from the servers' own
# ``information_schema.COLLATIONS`` (MySQL 5.6 to 9.7, MariaDB 10.11 and 11.8).
#
# Id ranges:
#
# * 1 to 323: compiled into MySQL; MariaDB shares those up to 254.
# * 576 to 767: MariaDB's own, 32 ids for each Unicode character set.
# * + 1024: the NO PAD variant of a MariaDB collation.
# * 2048 to 4095: MariaDB's ``uca1400`` collations, 256 ids for each Unicode character set.


BINARY_COLLATION_ID = 63
"""The ``binary`` pseudo character set: bytes, not text."""

MARIADB_NO_PAD_BIT = 1024
"""Added to a MariaDB collation id for its NO PAD variant."""

_IDS_BY_CHARSET: dict[str, tuple[range, ...]] = {
    "armscii8": (range(32, 33), range(64, 65)),
    "ascii": (range(11, 12), range(65, 66)),
    "big5": (range(1, 2), range(84, 85)),
    "binary": (range(63, 64),),
    "cp1250": (
        range(26, 27),
        range(34, 35),
        range(44, 45),
        range(66, 67),
        range(99, 100),
    ),
    "cp1251": (range(14, 15), range(23, 24), range(50, 53)),
    "cp1256": (range(57, 58), range(67, 68)),
    "cp1257": (range(29, 30), range(58, 60)),
    "cp850": (range(4, 5), range(80, 81)),
    "cp852": (range(40, 41), range(81, 82)),
    "cp866": (range(36, 37), range(68, 69)),
    "cp932": (range(95, 97),),
    "dec8": (range(3, 4), range(69, 70)),
    "eucjpms": (range(97, 99),),
    "euckr": (range(19, 20), range(85, 86)),
    "gb18030": (range(248, 251),),
    "gb2312": (range(24, 25), range(86, 87)),
    "gbk": (range(28, 29), range(87, 88)),
    "geostd8": (range(92, 94),),
    "greek": (range(25, 26), range(70, 71)),
    "hebrew": (range(16, 17), range(71, 72)),
    "hp8": (range(6, 7), range(72, 73)),
    "keybcs2": (range(37, 38), range(73, 74)),
    "koi8r": (range(7, 8), range(74, 75)),
    "koi8u": (range(22, 23), range(75, 76)),
    "latin1": (
        *(range(5, 6), range(8, 9), range(15, 16), range(31, 32)),
        *(range(47, 50), range(94, 95)),
    ),
    "latin2": (range(2, 3), range(9, 10), range(21, 22), range(27, 28), range(77, 78)),
    "latin5": (range(30, 31), range(78, 79)),
    "latin7": (range(20, 21), range(41, 43), range(79, 80)),
    "macce": (range(38, 39), range(43, 44)),
    "macroman": (range(39, 40), range(53, 54)),
    "sjis": (range(13, 14), range(88, 89)),
    "swe7": (range(10, 11), range(82, 83)),
    "tis620": (range(18, 19), range(89, 90)),
    "ucs2": (
        range(35, 36),
        range(90, 91),
        range(128, 160),
        range(640, 672),
        range(2560, 2816),
    ),
    "ujis": (range(12, 13), range(91, 92)),
    "utf16": (range(54, 56), range(101, 125), range(672, 704), range(2816, 3072)),
    "utf16le": (range(56, 57), range(62, 63)),
    "utf32": (range(60, 62), range(160, 184), range(736, 768), range(3072, 3328)),
    "utf8mb3": (
        *(range(33, 34), range(76, 77), range(83, 84), range(192, 224)),
        *(range(576, 608), range(2048, 2304)),
    ),
    "utf8mb4": (
        *(range(45, 47), range(224, 248), range(255, 324)),
        *(range(608, 640), range(2304, 2560)),
    ),
}


def _by_id() -> dict[int, str]:
    names: dict[int, str] = {}
    for charset, id_ranges in _IDS_BY_CHARSET.items():
        for id_range in id_ranges:
            for collation_id in id_range:
                names[collation_id] = charset
                if collation_id < 255 or 576 <= collation_id < 768:
                    names[collation_id + MARIADB_NO_PAD_BIT] = charset
    return names


CHARSET_BY_COLLATION_ID = MappingProxyType(_by_id())
"""Collation id -> character set name, in MySQL 9's spelling (``utf8mb3``, never ``utf8``)."""

CHARSETS = tuple(sorted(_IDS_BY_CHARSET))
"""Names of all character sets of MySQL and MariaDB."""
