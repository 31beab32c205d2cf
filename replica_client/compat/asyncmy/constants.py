"""Constants under asyncmy's names."""

from replica_client.compat.pymysqlreplication.constants.BINLOG import *  # noqa: F403
from replica_client.compat.pymysqlreplication.constants.FIELD_TYPE import *  # noqa: F403
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_LITERAL_FALSE as JSONB_LITERAL_FALSE,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_LITERAL_NULL as JSONB_LITERAL_NULL,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_LITERAL_TRUE as JSONB_LITERAL_TRUE,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_DOUBLE as JSONB_TYPE_DOUBLE,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_INT16 as JSONB_TYPE_INT16,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_INT32 as JSONB_TYPE_INT32,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_INT64 as JSONB_TYPE_INT64,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_LARGE_ARRAY as JSONB_TYPE_LARGE_ARRAY,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_LARGE_OBJECT as JSONB_TYPE_LARGE_OBJECT,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_LITERAL as JSONB_TYPE_LITERAL,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_OPAQUE as JSONB_TYPE_OPAQUE,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_SMALL_ARRAY as JSONB_TYPE_SMALL_ARRAY,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_SMALL_OBJECT as JSONB_TYPE_SMALL_OBJECT,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_STRING as JSONB_TYPE_STRING,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_UINT16 as JSONB_TYPE_UINT16,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_UINT32 as JSONB_TYPE_UINT32,
)
from replica_client.compat.pymysqlreplication.json_binary import (
    JSONB_TYPE_UINT64 as JSONB_TYPE_UINT64,
)

BINLOG_DUMP_NON_BLOCK = 1
BINLOG_THROUGH_GTID = 4
MAX_HEARTBEAT = 4294967
NULL_COLUMN = 251
UNSIGNED_CHAR_COLUMN = 251
UNSIGNED_SHORT_COLUMN = 252
UNSIGNED_INT24_COLUMN = 253
UNSIGNED_INT64_COLUMN = 254
UNSIGNED_CHAR_LENGTH = 1
UNSIGNED_SHORT_LENGTH = 2
UNSIGNED_INT24_LENGTH = 3
UNSIGNED_INT64_LENGTH = 8
