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

BINLOG_DUMP_NON_BLOCK = 1
BINLOG_THROUGH_GTID = 4
MAX_HEARTBEAT = 4294967
