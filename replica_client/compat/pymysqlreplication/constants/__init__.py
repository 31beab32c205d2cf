"""Constants: all names of event types, column types and status variables."""

from replica_client.compat.pymysqlreplication.constants import (
    CHARSET as CHARSET,
    NONE_SOURCE as NONE_SOURCE,
)
from replica_client.compat.pymysqlreplication.constants.BINLOG import *  # noqa: F403
from replica_client.compat.pymysqlreplication.constants.FIELD_TYPE import *  # noqa: F403
from replica_client.compat.pymysqlreplication.constants.STATUS_VAR_KEY import *  # noqa: F403
