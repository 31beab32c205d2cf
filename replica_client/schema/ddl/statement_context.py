"""The session state that a statement's meaning depends on."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.character_sets import Written, charset_of_id
from replica_client.schema.left_out import is_doubtful_name

MODE_REAL_AS_FLOAT: Final = 0x1
MODE_ANSI_QUOTES: Final = 0x4
MODE_ORACLE: Final = 0x200
MODE_MAXDB: Final = 0x1000
MODE_NO_BACKSLASH_ESCAPES: Final = 0x100000
MODE_STRICT: Final = 0x200000 | 0x400000
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES: with either, ALTER TABLE changes no value."""


@dataclass(frozen=True, slots=True)
class StatementContext:
    """The session in which a statement ran.

    Attributes:
        database: the default database, ``""`` for none.
        flavor: of the server that wrote the binlog.
        version: of that server; (0, 0, 0) when it is not known.
        sql_mode: bits of the session's SQL mode.
        server_charset: default character set of new databases; None when it is not known.
        thread_id: of the session; temporary tables belong to it.
        error_code: the error of the statement on the source; 0 for none.
        client_charset: the statement's character set; None if it loses no character.
        connection_charset: the character set that literals are converted to; None as well.
        sets_database_charset: whether ``collation_database`` differs from that of the database.
        uses_temporary: whether the statement used a temporary table; None where that is not known.
        is_done: whether the statement certainly changed something, even with IF NOT EXISTS.
    """

    database: str = ""
    flavor: ServerFlavor = ServerFlavor.MYSQL
    version: tuple[int, int, int] = (0, 0, 0)
    sql_mode: int = 0
    server_charset: str | None = None
    thread_id: int = 0
    error_code: int = 0
    is_done: bool = False
    client_charset: str | None = None
    connection_charset: str | None = None
    sets_database_charset: bool = False
    uses_temporary: bool | None = None

    @property
    def written(self) -> Written:
        """The character sets that literals of the statement are converted through."""
        return Written(self.client_charset, self.connection_charset)

    @property
    def is_mariadb(self) -> bool:
        """Whether the server is MariaDB."""
        return self.flavor == ServerFlavor.MARIADB

    @property
    def logs_cascades(self) -> bool:
        """Whether the server logs row changes that foreign keys make.

        MySQL 9.6 and newer do unless ``innodb_native_foreign_keys`` is ON; no event has that
        setting.
        """
        return not self.is_mariadb and self.version >= (9, 6, 0)

    @property
    def ansi_quotes(self) -> bool:
        """Whether ``"`` quotes names."""
        return bool(self.sql_mode & MODE_ANSI_QUOTES)

    @property
    def backslash_escapes(self) -> bool:
        """Whether a backslash in a string is an escape."""
        return not self.sql_mode & MODE_NO_BACKSLASH_ESCAPES

    @property
    def is_strict(self) -> bool:
        """Whether a statement fails, instead of changing a value that does not fit."""
        return bool(self.sql_mode & MODE_STRICT)

    @property
    def oracle(self) -> bool:
        """Whether type names have Oracle's meaning (MariaDB)."""
        return self.is_mariadb and bool(self.sql_mode & MODE_ORACLE)

    @property
    def stamps_are_datetimes(self) -> bool:
        """Whether TIMESTAMP means DATETIME, as in MAXDB."""
        return bool(self.sql_mode & MODE_MAXDB) and (self.is_mariadb or self.version < (8, 0, 0))

    @property
    def utf8_is_in_doubt(self) -> bool:
        """Whether ``utf8`` may also mean utf8mb4: by MariaDB's old_mode, which no event has."""
        return is_doubtful_name("utf8", self.flavor, self.version)

    @staticmethod
    def of_query(
        event: QueryEvent,
        flavor: ServerFlavor,
        version: tuple[int, int, int],
        uses_temporary: bool | None = None,
    ) -> StatementContext:
        """Return the context that a QUERY event carries."""
        status = event.session
        return _kept_context(
            event.schema,
            flavor,
            version,
            status.sql_mode or 0,
            status.collation_server,
            event.thread_id,
            event.error_code,
            # The servers log no XID for an IF NOT EXISTS that did nothing.
            status.ddl_xid is not None,
            status.character_set_client,
            status.collation_connection,
            bool(status.character_set_database),
            uses_temporary,
        )


@lru_cache(maxsize=64)
def _kept_context(
    schema: bytes,
    flavor: ServerFlavor,
    version: tuple[int, int, int],
    sql_mode: int,
    collation_server: int | None,
    thread_id: int,
    error_code: int,
    is_done: bool,
    character_set_client: int | None,
    collation_connection: int | None,
    sets_database_charset: bool,
    uses_temporary: bool | None,
) -> StatementContext:
    """Return a context; one object is shared by consecutive statements of a session."""
    return StatementContext(
        schema.decode("utf-8", "surrogateescape"),
        flavor,
        version,
        sql_mode,
        charset_of_id(collation_server),
        thread_id,
        error_code,
        is_done,
        charset_of_id(character_set_client),
        charset_of_id(collation_connection),
        sets_database_charset,
        uses_temporary,
    )
