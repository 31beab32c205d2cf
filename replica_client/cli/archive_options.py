"""What all commands on archives have in common: how one is opened, and what is asked of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from replica_client.archive.archive import Archive, open_archive
from replica_client.archive.question import Key
from replica_client.cli.flags import decode_options
from replica_client.cli.sources import binlog_paths, schema_of
from replica_client.errors import ConfigError

Sources = Annotated[
    list[str],
    typer.Argument(metavar="ARCHIVE", help="Binlog files, globs, directories, or their URLs."),
]


@contextmanager
def opened(
    sources: Sequence[str],
    *,
    schema: Path | None = None,
    key_file: Path | None = None,
    invalid_text: Literal["strict", "replace", "bytes"] = "strict",
    **archive_options: Any,
) -> Iterator[Archive]:
    """Open an archive, with a bar on a terminal while its indexes are read or made.

    Raises:
        ConfigError: nothing is there.
    """
    paths = binlog_paths(sources)
    with _bar() as advance:
        archive = open_archive(
            [str(path) for path in paths],
            options=decode_options(key_file, invalid_text=invalid_text),
            schema=schema_of(schema, None),
            progress=advance,
            **archive_options,
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
