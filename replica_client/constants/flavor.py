"""MySQL or MariaDB."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache


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
