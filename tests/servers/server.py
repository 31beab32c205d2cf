"""What every real server offers to a test, wherever it runs."""

import re
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.connections import Connection

CONNECT_TIMEOUT = 10
SQL_TIMEOUT = 60

_CONNECTION_GONE = (pymysql.err.InterfaceError, pymysql.err.OperationalError)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens and who may log in; `name` is e.g. `mysql-9.7` or an image's name."""

    name: str
    flavor: str
    version_text: str
    host: str
    port: int
    user: str = "repl"
    password: str = "secret"
    root_password: str = ""


def parse_version(text: str) -> tuple[int, int, int]:
    """`10.11.18-MariaDB-log` gives (10, 11, 18)."""
    match = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise ValueError(f"not a server version: {text!r}")
    major, minor, patch = (int(part) for part in match.groups())
    return major, minor, patch


class Server:
    """A running server. SQL goes through one connection of `root`, opened when first needed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: Connection[Any] | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.host}:{self.port}>"

    @property
    def name(self) -> str:
        return self.address.name

    @property
    def flavor(self) -> str:
        """`mysql` or `mariadb`."""
        return self.address.flavor

    @property
    def version(self) -> tuple[int, int, int]:
        return parse_version(self.address.version_text)

    @property
    def host(self) -> str:
        return self.address.host

    @property
    def port(self) -> int:
        return self.address.port

    @property
    def user(self) -> str:
        """The replica's user; `root` is always there beside it."""
        return self.address.user

    @property
    def password(self) -> str:
        return self.address.password

    def password_of(self, user: str) -> str:
        return self.address.root_password if user == "root" else self.address.password

    def url(self, user: str = "repl", *, scheme: str | None = None) -> str:
        """`mysql://repl:secret@127.0.0.1:41234/`, the scheme being the server's flavour."""
        password = self.password_of(user)
        credentials = f"{user}:{password}" if password else user
        return f"{scheme or self.flavor}://{credentials}@{self.host}:{self.port}/"

    def connect(self, user: str = "root", **options: Any) -> "Connection[Any]":
        """A new PyMySQL connection (utf8mb4, autocommit) that the caller closes."""
        settings = {
            "charset": "utf8mb4",
            "autocommit": True,
            "connect_timeout": CONNECT_TIMEOUT,
            "read_timeout": SQL_TIMEOUT,
            "write_timeout": SQL_TIMEOUT,
            # A TLS context reads all of the machine's certificates: 30 ms of CPU for each connection.
            "ssl_disabled": not any(name.startswith("ssl") for name in options),
        }
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=user,
            password=self.password_of(user),
            **{**settings, **options},
        )

    @contextmanager
    def connected(self, user: str = "root", **options: Any) -> "Iterator[Connection[Any]]":
        """A connection that is closed at the end of the block."""
        connection = self.connect(user, **options)
        try:
            yield connection
        finally:
            connection.close()

    def execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        """Runs one statement as root and commits it; returns the number of affected rows."""
        with self._lock, self._root().cursor() as cursor:
            return int(cursor.execute(sql, tuple(args) or None))

    def query(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Runs one statement as root and returns its rows."""
        with self._lock, self._root().cursor() as cursor:
            cursor.execute(sql, tuple(args) or None)
            return [tuple(row) for row in cursor.fetchall()]

    def reset_binlog(self) -> None:
        """Delete all binlog files and GTIDs, and begin with the first file; MySQL renamed the statement in 8.2."""
        renamed = self.flavor == "mysql" and self.version >= (8, 2)
        self.execute("RESET BINARY LOGS AND GTIDS" if renamed else "RESET MASTER")

    def wait_until_gone(self, session: int) -> None:
        """Wait until a session has ended on the server, some time after its client has left."""
        until = time.monotonic() + SQL_TIMEOUT
        while self.query("SELECT 1 FROM information_schema.processlist WHERE id = %s", (session,)):
            if time.monotonic() > until:
                raise TimeoutError(f"session {session} has not ended within {SQL_TIMEOUT} s")
            time.sleep(0.005)

    def _root(self) -> "Connection[Any]":
        if self._connection is not None:
            try:
                self._connection.ping(reconnect=False)
            except _CONNECTION_GONE:
                self.disconnect()
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    def disconnect(self) -> None:
        """Closes the connection behind `execute` and `query`; the next of them opens another."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and connection.open:
                try:
                    connection.close()
                except pymysql.err.Error:
                    connection._force_close()

    def binlog_files(self) -> list[str]:
        """The names of the server's binlog files, oldest first."""
        return [str(row[0]) for row in self.query("SHOW BINARY LOGS")]

    def binlog_position(self) -> tuple[str, int]:
        """The file and position after the last event written."""
        modern = self.flavor == "mysql" and self.version >= (8, 2)
        rows = self.query("SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")
        return str(rows[0][0]), int(rows[0][1])

    def rotate(self) -> None:
        """Begins a new binlog file, and waits for what MariaDB adds when it finds the time.

        That is a BINLOG_CHECKPOINT event that names the new file; a prepared transaction keeps it back.
        """
        self.execute("FLUSH BINARY LOGS")
        deadline = time.monotonic() + 2
        while self.flavor == "mariadb" and time.monotonic() < deadline:
            newest = self.binlog_files()[-1]
            events = self.query(f"SHOW BINLOG EVENTS IN '{newest}'")
            if any(event[2] == "Binlog_checkpoint" and event[5] == newest for event in events):
                return
            time.sleep(0.02)

    def create_database(self, prefix: str = "test") -> str:
        """Creates a database with a name of its own, and returns the name."""
        slug = re.sub(r"\W+", "_", prefix).strip("_").lower()[:40] or "test"
        name = f"{slug}_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE `{name}`")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")
