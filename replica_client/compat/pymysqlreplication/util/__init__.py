"""Functions of bytes."""

from replica_client.compat.pymysqlreplication.util import bytes as bytes
from replica_client.compat.pymysqlreplication.util.bytes import *  # noqa: F403
