"""``replica-client recover``: a server brought to a moment, by its own applier."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replica_client.cli.archive_options import Sources, opened
from replica_client.cli.flags import Since, with_archive
from replica_client.cli.interruption import run_async
from replica_client.cli.output import message
from replica_client.errors import ConfigError

if TYPE_CHECKING:
    from replica_client.archive.archive import Archive
    from replica_client.protocol.position import Position
    from replica_client.server.recovery import RecoveryProgress

_REPORT_SECONDS = 10.0


@with_archive
def recover(
    sources: Sources,
    to: Annotated[
        str, typer.Option("--to", metavar="URL", help="The server, into which the dump was loaded.")
    ],
    dump: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The dump, or mydumper's metadata, or the _binlog_info of xtrabackup or mariadb-backup: it states "
            "the position of the data.",
        ),
    ] = None,
    since: Since = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="STOP",
            help="Stop before a FILE:OFFSET, a time, or the transaction of a GTID; else at the end of the archive.",
        ),
    ] = None,
    before_drop: Annotated[
        str | None,
        typer.Option(
            "--before-drop", metavar="TABLE", help="Stop before the last DROP of database.table."
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Where that server reaches this process."
        ),
    ] = "127.0.0.1:0",
    **archived: Any,
) -> None:
    """Bring a server, into which a dump was loaded, to a moment: row changes, DDL and all else.

    The archive is served to it as its source up to the moment, and its own replication threads apply it. Then the
    end is checked, and its replication is removed.
    """
    from replica_client.server import recovery
    from replica_client.stream.transport.connect_options import listen_address

    if (dump is None) == (since is None):
        raise ConfigError("give one of --dump and --since: where the data of the server ends")
    host, port = listen_address(listen)
    with opened(sources, **archived) as archive:
        start = recovery.position_of_dump(dump) if dump is not None else _start(archive, since)
        stop = recovery.stop_before(archive, until, before_drop)
        message(f"from {start.file}:{start.offset} to {stop.file}:{stop.offset}")
        shown = time.monotonic()

        def show(progress: RecoveryProgress) -> None:
            nonlocal shown
            if time.monotonic() >= shown + _REPORT_SECONDS:
                shown = time.monotonic()
                message(f"applied up to {progress.reached.file}:{progress.reached.offset}")

        async def work() -> None:
            done = await recovery.recover(
                archive, start, stop, to, host=host, port=port, on_progress=show
            )
            message(
                f"the server is at {done.stop.file}:{done.stop.offset}, with the GTIDs {done.gtids or 'none'}; its "
                "replication is removed. Next: compare a table with what you expect, and copy what was lost, or point "
                "clients and replicas to it"
            )

        run_async(work())


def _start(archive: Archive, since: str | None) -> Position:
    from replica_client.archive.as_of.moments import moment_of

    return moment_of(archive, since, "since")
