"""Functions of bytes."""

from replica_client.compat.pymysqlreplication.util import bytes as bytes  # noqa: A004
from replica_client.compat.pymysqlreplication.util.bytes import *  # noqa: F403
