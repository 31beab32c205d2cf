"""Recovery to a point in time: a server applies an archive, which is served to it as its source."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from replica_client.archive.archive import Archive
from replica_client.archive.as_of.moments import moment_of
from replica_client.archive.binlog_archive import named_table
from replica_client.archive.logged_statements import find_statements
from replica_client.archive.question import Question
from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.protocol.wire.auth.server import stored_password
from replica_client.rows.selection import exact_pattern
from replica_client.server.accounts import Account
from replica_client.server.binlog_server import BinlogServer
from replica_client.server.served_library import BinlogLibrary
from replica_client.storage.files import open_file
from replica_client.stream.transactions.arguments import parse_start
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection

_HEAD: Final = 1 << 18
_LOOK_SECONDS: Final = 0.5
_USER: Final = "replica_client_recover"
_DUMPS: Final = (
    # mysqldump, mariadb-dump
    re.compile(
        r"(?:MASTER|SOURCE)_LOG_FILE\s*=\s*['\"]([^'\"]+)['\"],\s*(?:MASTER|SOURCE)_LOG_POS\s*=\s*(\d+)"
    ),
    # mydumper's metadata, new and old
    re.compile(
        r"(?m)^\s*(?:SOURCE_LOG_)?F(?:ILE|ile)\s*=\s*\"?([^\s\"]+)\"?\s*\n(?:.*\n)?\s*(?:SOURCE_LOG_POS|Position)\s*=\s*\"?(\d+)"
    ),
    re.compile(r"(?m)^\s*Log:\s*(\S+)\s*\n\s*Pos:\s*(\d+)"),
    # xtrabackup_binlog_info, mariadb_backup_binlog_info
    re.compile(r"\A(\S+\.\d+)\s+(\d+)(?:\s|\Z)"),
)


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """How far a server is.

    Attributes:
        reached: the position up to which it has applied the archive.
        stop: the position at which it stops.
    """

    reached: Position
    stop: Position


class Recovered(NamedTuple):
    """The end of a recovery.

    Attributes:
        start: where it began.
        stop: where it ended: before this position.
        gtids: the GTIDs of the server at the end, as it states them.
    """

    start: Position
    stop: Position
    gtids: str


def position_of_dump(path: Path) -> Position:
    """Return the position that a dump states at its head.

    Args:
        path: a dump of mysqldump or mariadb-dump with ``--source-data`` or ``--master-data``,
            mydumper's ``metadata``, or the ``…_binlog_info`` of xtrabackup or mariadb-backup.

    Raises:
        ConfigError: it states none.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD).decode("utf-8", "replace")
    for pattern in _DUMPS:
        if match := pattern.search(head):
            return Position(match[1], int(match[2]))
    raise ConfigError(
        f"{path} states no binlog position; dump with --source-data=2 (MariaDB: --master-data=2), or give --since"
    )


def stop_before(archive: Archive, until: str | None, dropped: str | None) -> Position:
    """Return the position before which a recovery ends.

    Args:
        archive: the archive.
        until: a position, a time, or a GTID: before its transaction; None: the end of the archive.
        dropped: a table: before the last DROP of it; the same for a DROP of its database.

    Raises:
        ConfigError: the archive has no such moment.
    """
    if dropped is not None:
        if until is not None:
            raise ConfigError("give one of --until and --before-drop")
        table = named_table(dropped)
        drops = [
            one
            for one in find_statements(archive, Question((exact_pattern(*table),)))
            if re.match(r"(?:/\*.*?\*/|\s)*DROP\b", one.text, re.IGNORECASE | re.DOTALL)
        ]
        if not drops:
            raise ConfigError(f"the archive has no DROP of {dropped}")
        start = drops[-1].transaction.start
        return Position(start.file, start.offset)
    begin = parse_start(until, "latest", "until")
    if isinstance(begin, Position) and begin.gtid_set is not None and not begin.file:
        asked = Question(gtid=begin.gtid_set)
        for one in archive.transactions([asked]):
            if asked.takes_transaction(one):
                return Position(one.start.file, one.start.offset)
        raise ConfigError(f"until: the archive has no transaction {until}")
    return moment_of(archive, until, "until")


async def recover(
    archive: Archive,
    start: Position,
    stop: Position,
    url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_progress: Callable[[RecoveryProgress], None] = lambda _: None,
) -> Recovered:
    """Make a server apply an archive from one position up to another, DDL included.

    The archive is served to it as its source; its own replication threads apply it. They are
    removed at the end. After an error they stay as they are, for inspection.

    Args:
        archive: the archive; kept files and those of a store are unpacked into a temporary directory.
        start: the position of the data that the server has.
        stop: the position before which it ends.
        url: the server, with an account that may configure replication.
        host: the address at which the server reaches this process.
        port: the port; 0: any free one.
        on_progress: called while the server applies.

    Raises:
        ConfigError: the positions contradict each other, or the server is already a replica.
        DataLossError: the server stopped with an error, or elsewhere.
        ServerError: the server refuses a statement.
        TransportError: the server cannot be reached.
    """
    _check_range(archive, start, stop)
    with _local_files(archive, start, stop) as paths:
        return await _recover(
            archive, BinlogLibrary(paths), start, stop, url, host, port, on_progress
        )


@contextmanager
def _local_files(archive: Archive, start: Position, stop: Position) -> Iterator[list[Path]]:
    """Give the files of a range as plain files of this machine; others are unpacked into a temporary directory."""
    names = [one.name for one in archive.files.listed]
    needed = archive.files.listed[names.index(start.file) : names.index(stop.file) + 1]
    with tempfile.TemporaryDirectory(prefix="replica-client-recover-") as directory:
        paths = []
        for one in needed:
            path = one.where
            if one.is_kept or not isinstance(path, Path):
                path = Path(directory) / one.name
                with closing(open_file(one.where)) as source, path.open("xb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
            paths.append(path)
        yield paths


async def _recover(
    archive: Archive,
    library: BinlogLibrary,
    start: Position,
    stop: Position,
    url: str,
    host: str,
    port: int,
    on_progress: Callable[[RecoveryProgress], None],
) -> Recovered:
    mysql = library.flavor is ServerFlavor.MYSQL
    async with await SourceConnection.open(parse_url(url)) as target:
        is_new = not target.server.is_mariadb and target.server.version >= (8, 4, 0)
        words = _Words(is_new, target.server.is_mariadb)
        if target.server.is_mariadb is mysql:
            raise ConfigError(f"{target.options.address}: the archive is of another kind of server")
        [[own_id]] = await target.query("SELECT @@server_id", columns=1, rows=1)
        if int(own_id) == library.server_id:
            raise ConfigError(
                f"{target.options.address} has the server_id {own_id} of the source, and would skip its own "
                "transactions: give it another one (SET GLOBAL server_id = N)"
            )
        if await target.query(words.show):
            raise ConfigError(
                f"{target.options.address} is a replica already: {words.stop}; {words.reset}, if it may be taken"
            )
        plugin = "caching_sha2_password" if is_new else "mysql_native_password"
        password = secrets.token_hex(16)
        account = Account(_USER, plugin, stored_password(plugin, password.encode()))
        server = BinlogServer(library, [account], host=host, port=port)
        await server.start()
        try:
            await target.query(words.change(host, server.port, password, start))
            await target.query(words.start(stop))
            await _wait(target, words, archive, start, stop, on_progress)
            await target.query(words.stop)
            await target.query(words.reset)
        finally:
            await server.close()
        variable = "@@gtid_current_pos" if target.server.is_mariadb else "@@gtid_executed"
        [[gtids]] = await target.query(f"SELECT {variable}", columns=1, rows=1)
        return Recovered(start, stop, str(gtids or "").replace("\n", ""))


def _check_range(archive: Archive, start: Position, stop: Position) -> None:
    names = [one.name for one in archive.files.listed]
    if start.file not in names:
        raise ConfigError(
            f"the data is of {start.file}:{start.offset}, and the archive has {names[0]} to {names[-1]}: files are "
            "missing"
        )
    if moment_of(archive, start, "since") > stop:
        raise ConfigError(
            f"{stop.file}:{stop.offset} is before the position of the data, {start.file}:{start.offset}: take an "
            "earlier dump"
        )


class _Words:
    """The statements of replication in a server's spelling."""

    def __init__(self, is_new: bool, is_mariadb: bool) -> None:
        self.is_new, self.is_mariadb = is_new, is_mariadb
        self.source, self.replica = ("SOURCE", "REPLICA") if is_new else ("MASTER", "SLAVE")
        self.show = f"SHOW {self.replica} STATUS"
        self.stop = f"STOP {self.replica}"
        self.reset = f"RESET {self.replica} ALL"

    def change(self, host: str, port: int, password: str, at: Position) -> str:
        """Return the statement that configures the source."""
        given = {
            "HOST": _text(host),
            "PORT": port,
            "USER": _text(_USER),
            "PASSWORD": _text(password),
            "LOG_FILE": _text(at.file),
            "LOG_POS": at.offset,
            "CONNECT_RETRY": 1,
        }
        values = [f"{self.source}_{name}={value}" for name, value in given.items()]
        if self.is_new:
            values += ["SOURCE_AUTO_POSITION=0", "SOURCE_SSL=0", "GET_SOURCE_PUBLIC_KEY=1"]
            return f"CHANGE REPLICATION SOURCE TO {', '.join(values)}"
        values += (
            ["MASTER_USE_GTID=no", "MASTER_SSL_VERIFY_SERVER_CERT=0"]
            if self.is_mariadb
            else ["MASTER_AUTO_POSITION=0"]
        )
        return f"CHANGE MASTER TO {', '.join(values)}"

    def start(self, stop: Position) -> str:
        """Return the statement that starts replication up to a position."""
        until = f"{self.source}_LOG_FILE={_text(stop.file)}, {self.source}_LOG_POS={stop.offset}"
        return f"START {self.replica} UNTIL {until}"


def _text(value: str) -> str:
    """Return a text as a literal: CHANGE MASTER takes no introducers of character sets.

    Raises:
        ConfigError: it has characters that hosts and binlog files have not.
    """
    if not re.fullmatch(r"[\w.:\-]+", value):
        raise ConfigError(f"{value!r} cannot be a host or a binlog file")
    return f"'{value}'"


async def _wait(
    target: SourceConnection,
    words: _Words,
    archive: Archive,
    start: Position,
    stop: Position,
    on_progress: Callable[[RecoveryProgress], None],
) -> None:
    """Wait until a server has applied everything before a position.

    Raises:
        DataLossError: it stopped with an error, or elsewhere.
    """
    while True:
        [row] = await target.query(words.show, rows=1)
        status: dict[str, Any] = dict(zip(target.columns, row, strict=True))
        renamed = {
            name.replace("Master", "Source").replace("Slave", "Replica"): value
            for name, value in status.items()
        }
        reached = Position(
            str(renamed["Relay_Source_Log_File"] or start.file),
            int(renamed["Exec_Source_Log_Pos"] or 0),
        )
        on_progress(RecoveryProgress(reached, stop))
        for kind in ("SQL", "IO"):
            if error := str(renamed[f"Last_{kind}_Error"] or ""):
                if kind == "SQL" or renamed["Replica_IO_Running"] == "No":
                    raise DataLossError(
                        f"the server stopped at {reached.file}:{reached.offset}: {error}; its replication stays as it "
                        f"is: correct the cause, {words.stop}; {words.reset}, and begin again with the dump"
                    )
        if reached >= stop or (
            renamed["Replica_SQL_Running"] == "No" and _is_reached(archive, reached, stop)
        ):
            return
        if renamed["Replica_SQL_Running"] == "No":
            raise DataLossError(
                f"the server stopped at {reached.file}:{reached.offset}, before {stop.file}:{stop.offset}"
            )
        await asyncio.sleep(_LOOK_SECONDS)


def _is_reached(archive: Archive, reached: Position, stop: Position) -> bool:
    """Return whether no transaction is between two positions."""
    asked = Question(since=reached, until=stop)
    return not any(asked.takes_transaction(one) for one in archive.transactions([asked]))
