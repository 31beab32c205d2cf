"""Facts about a server that a replica needs."""

from __future__ import annotations

import re

from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.flavor import ServerFlavor

RELAY_COMMENT = "replica_client relay"
"""How the ``version_comment`` of every relay begins."""

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> tuple[int, int, int]:
    """Parse a version: ``10.11.6-MariaDB-log`` gives (10, 11, 6); (0, 0, 0) when there is none.

    MariaDB puts ``5.5.5-`` before its version in the greeting, for very old replicas.
    """
    lowered = text.lower()
    if "mariadb" in lowered and text.startswith("5.5.5-"):
        text = text.removeprefix("5.5.5-")
    match = _VERSION.match(text)
    if match is None:
        return (0, 0, 0)
    return (int(match[1]), int(match[2]), int(match[3] or 0))


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Identity and capabilities of a server after login.

    Attributes:
        flavor: MySQL or MariaDB.
        version: e.g. (9, 7, 4).
        version_text: as the server writes it.
        server_id: its ``server_id``.
        server_uuid: its ``server_uuid``; empty on MariaDB and before MySQL 5.6.
        connection_id: our session's id there.
        tls: TLS version in use, e.g. ``TLSv1.3``; empty without TLS.
        auth_plugin: plugin that we logged in with.
        lower_case_table_names: 0 where names of tables and databases that differ in letter case are of two
            tables, else 1 or 2; None when unknown.
        verified_by: what proved that the certificate is the server's; empty when nothing did.
        fingerprint: of its certificate, as ``tls_fingerprint`` takes it; empty without TLS.
        comment: its ``version_comment``.
    """

    flavor: ServerFlavor
    version: tuple[int, int, int]
    version_text: str
    server_id: int = 0
    server_uuid: str = ""
    connection_id: int = 0
    tls: str = ""
    auth_plugin: str = ""
    lower_case_table_names: int | None = None
    verified_by: str = ""
    fingerprint: str = ""
    comment: str = ""

    @property
    def casefolds_names(self) -> bool | None:
        """Whether names that differ only by letter case are the same; None when unknown."""
        return None if self.lower_case_table_names is None else self.lower_case_table_names != 0

    @property
    def is_relay(self) -> bool:
        """Whether the server is a relay of this package.

        The files of a relay may come from several servers in turn.
        """
        return self.comment.startswith(RELAY_COMMENT)

    @property
    def is_mariadb(self) -> bool:
        """Whether the server is MariaDB."""
        return self.flavor is ServerFlavor.MARIADB


@dataclass(frozen=True, slots=True)
class BinlogStatus:
    """The end of a server's binlog.

    Attributes:
        file: current file.
        position: its size so far.
        executed_gtid_set: MySQL's executed set, MariaDB's GTID position there; empty without GTIDs.
        do_databases: ``binlog_do_db``; empty: all.
        ignored_databases: ``binlog_ignore_db``.
    """

    file: str
    position: int
    executed_gtid_set: str
    do_databases: tuple[str, ...] = ()
    ignored_databases: tuple[str, ...] = ()

    @property
    def filters(self) -> str:
        """The filters in words: ``only databases a, b``; empty when there are none."""
        if self.do_databases:
            return f"only databases {', '.join(self.do_databases)} (binlog_do_db)"
        if self.ignored_databases:
            return f"no database {', '.join(self.ignored_databases)} (binlog_ignore_db)"
        return ""
