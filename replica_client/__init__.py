"""MySQL and MariaDB replication-protocol client: binlog files and live sources."""

from __future__ import annotations

from replica_client._compiled import compiled
from replica_client._version import __version__

__all__ = ["__version__", "compiled"]
