"""What all commands on archives have in common: how one is opened, and what is asked of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from replica_client.archive.archive import Archive, open_archive
from replica_client.archive.question import Key
from replica_client.cli.sources import binlog_paths
from replica_client.errors import ConfigError
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.schema.history import SchemaHistory

Sources = Annotated[
    list[str],
    typer.Argument(metavar="ARCHIVE", help="Binlog files, globs, directories, or their URLs."),
]


@contextmanager
def opened(
    sources: Sequence[str],
    decode: DecodeOptions,
    schema: SchemaHistory | None,
    letter_case: int | None,
    index_directory: Path | None,
) -> Iterator[Archive]:
    """An archive, with a bar on a terminal while its indexes are read or made.

    Raises:
        ConfigError: nothing is there.
    """
    paths = binlog_paths(sources)
    with _bar() as advance:
        archive = open_archive(
            [str(path) for path in paths],
            options=decode,
            schema=schema,
            lower_case_table_names=letter_case,
            index_directory=index_directory,
            progress=advance,
        )
        archive.index()
    yield archive


@contextmanager
def _bar() -> Iterator[Callable[[int], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    from replica_client.cli.output import progress_console

    columns = (TextColumn("indexes"), BarColumn(), TextColumn("{task.completed:,} bytes"))
    with Progress(*columns, console=progress_console(), transient=True) as progress:
        task = progress.add_task("indexes", total=None)
        yield lambda size: progress.update(task, advance=size)


def key_of(values: Sequence[str] | None) -> Key | None:
    """The key that ``--key`` gives.

    Raises:
        ConfigError: some values have a column's name and some have not.
    """
    if not values:
        return None
    named = [value.partition("=") for value in values if "=" in value]
    if not named:
        return list(values)
    if len(named) < len(values):
        raise ConfigError("--key: give a COLUMN=VALUE for each column, or values only")
    return {name: value for name, _, value in named}
