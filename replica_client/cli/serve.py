"""``replica-client serve``: the testing source, which speaks the protocol from binlog files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, message
from replica_client.cli.raw_files import files_of
from replica_client.testing.source import BinlogSource

EXAMPLE = "replica-client serve binlog.000024 --port 3307"


def serve(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Binlog files or directories, in order.")
    ],
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="TCP port; 0 takes a free one.")
    ] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Serve binlog files over the real replication protocol, for tests and trials.

    Prints the URL of the source and serves until it is interrupted.
    """
    files = files_of(paths)
    run_async(_serve(files, host, port))


async def _serve(files: list[Path], host: str, port: int) -> None:
    async with BinlogSource(files, host=host, port=port) as source:
        lines = Lines()
        lines.line(source.url)
        lines.flush()
        message(f"serving {len(files)} binlog files at {source.url}; stop with Ctrl-C")
        await source.serve_forever()
