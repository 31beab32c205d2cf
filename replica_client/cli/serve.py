"""``replica-client serve``: the testing source, which speaks the protocol from binlog files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from replica_client.cli.file_check import files_of
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, message
from replica_client.storage.location import local_path
from replica_client.testing.source import BinlogSource

_LOOK_SECONDS: Final = 0.1


def serve(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Binlog files or directories, in order.")
    ],
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="TCP port; 0 takes a free one.")
    ] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    tls: Annotated[
        bool, typer.Option("--tls", help="Offer TLS, with a self-signed certificate.")
    ] = False,
) -> None:
    """Serve binlog files over the real replication protocol, for tests and trials.

    Prints the URL of the source and serves until it is interrupted. What is appended to the last file, and files that
    come into the directories, are served, too. `relay` is the command for production.
    """
    for path in paths:
        local_path(path, "serve")
    files = [path for path in files_of(paths) if isinstance(path, Path)]
    directories = [Path(path) for path in paths if Path(path).is_dir()]
    run_async(_serve(directories if len(directories) == len(paths) else files, host, port, tls))


async def _serve(files: list[Path], host: str, port: int, tls: bool) -> None:
    async with BinlogSource(files, host=host, port=port, tls=tls) as source:
        lines = Lines()
        lines.line(source.url)
        lines.flush()
        count = len(source.library.files)
        message(f"serving {count} binlog files at {source.url}; stop with Ctrl-C")
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            source.library.refresh()
