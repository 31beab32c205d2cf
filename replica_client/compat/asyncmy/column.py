"""Columns under asyncmy's names."""

from replica_client.compat.asyncmy.constants import *  # noqa: F403
from replica_client.compat.pymysqlreplication.column import Column as Column
