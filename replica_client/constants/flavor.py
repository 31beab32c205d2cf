"""MySQL or MariaDB."""

from __future__ import annotations

from enum import StrEnum


class ServerFlavor(StrEnum):
    """The two families of servers; their protocols differ in GTIDs, SQL and event types."""

    MYSQL = "mysql"
    MARIADB = "mariadb"

    @classmethod
    def of_version(cls, server_version: str) -> ServerFlavor:
        """The flavor that a version text names (``5.5.5-10.11.6-MariaDB-log``, ``9.7.4``)."""
        return cls.MARIADB if "mariadb" in server_version.lower() else cls.MYSQL
