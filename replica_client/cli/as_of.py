"""``replica-client as-of``: a table as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from replica_client.archive.binlog_archive import named_table
from replica_client.archive.known_names import check_table
from replica_client.cli.archive_options import Sources, opened
from replica_client.cli.flags import Json, Threads, with_archive_texts
from replica_client.cli.output import Lines, message
from replica_client.cli.program import FaultFoundError, extra_module
from replica_client.errors import ConfigError

if TYPE_CHECKING:
    from replica_client.archive.archive import Archive
    from replica_client.archive.as_of.table_state import TableState

_TRIES: Final = 3


@with_archive_texts
def as_of(
    sources: Sources,
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="database.table, its name at the moment.")
    ],
    at: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="FILE:OFFSET, a GTID (after its transaction), a GTID set, a time, or latest.",
        ),
    ],
    live: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Go backward from the table as this server has it now."),
    ] = None,
    copy: Annotated[
        str | None,
        typer.Option(
            metavar="COPY",
            help="Go forward from these rows: a Parquet or Arrow file, or the URL of a server with a dump. "
            "Without it: from the CREATE TABLE or TRUNCATE in the archive.",
        ),
    ] = None,
    copy_at: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Position of --copy; files that as-of wrote contain it."),
    ] = None,
    lock: Annotated[
        bool,
        typer.Option(
            "--lock", help="Begin to read --live under a global read lock, given back at once."
        ),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Leave a column out, as it is called at the moment: for example a generated one that the source does "
            "not log. May be repeated.",
        ),
    ] = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            help="Go both ways and compare, also with the server's own text of the present values; "
            "exit status 1 if they differ.",
        ),
    ] = False,
    json: Json = False,
    parquet: Annotated[
        str | None, typer.Option(metavar="FILE", help="The rows as a Parquet file.")
    ] = None,
    arrow: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The rows as an Arrow stream; - for standard output."),
    ] = None,
    duckdb: Annotated[
        str | None, typer.Option(metavar="FILE", help="The rows in a new DuckDB database.")
    ] = None,
    threads: Threads = 2,
    **archived: Any,
) -> None:
    """Print a table as it was at a moment.

    Backward: from the live table through the row images before each change, so that the archive reaches up to now.
    Forward: from a copy, or from where a CREATE TABLE or TRUNCATE left the table empty. RENAME TABLE is followed, and
    ALTER TABLE as far as it leaves values as they are.

    Refused by name: row images that lack columns, changes that were logged as statements, other DDL between, foreign
    keys that cascade, missing files, and rows to start from that do not fit the changes.
    """
    forms = {"parquet": parquet, "arrow": arrow, "duckdb": duckdb}
    given = [(form, target) for form, target in forms.items() if target is not None]
    if len(given) + json + prove > 1:
        raise ConfigError("give one of --json, --parquet, --arrow, --duckdb and --prove")
    if prove and live is None:
        raise ConfigError("--prove needs --live, to go backward from")
    extra_module("replica_client.rows.batching", "arrow")
    with opened(sources, **archived) as archive:
        if live is None and copy is None:
            # Rows of a live table, or of a copy, may never have changed in the archive.
            check_table(archive, named_table(table), hint="")
        if prove:
            _prove(
                *(archive, table, at, live, copy, copy_at, lock),
                without=without or (),
                threads=threads,
            )
            return
        state = archive.as_of(
            *(table, at),
            live=live,
            copy=copy,
            copy_at=copy_at,
            lock=lock,
            without=without or (),
            threads=threads,
        )
        if duckdb is not None:
            module = extra_module("replica_client.compat.duckdb_views", "duckdb")
            rows = module.write_database(state, Path(duckdb))
        elif given:
            module = extra_module("replica_client.archive.as_of.table_state", "arrow")
            rows = module.write_state(state, given[0][1], given[0][0])
        else:
            rows = _print_rows(state)
        message(
            f"{rows} rows of {table} at {state.position}, {state.direction} over {state.changes} changes"
        )


def _print_rows(state: TableState) -> int:
    from replica_client.archive.as_of.reconstruction import state_lines

    lines, rows = Lines(), 0
    for line in state_lines(state):
        lines.json_text(line)
        rows += 1
    lines.flush()
    return rows


def _prove(
    archive: Archive,
    table: str,
    at: str,
    live: str | None,
    copy: str | None,
    copy_at: str | None,
    lock: bool,
    **options: Any,
) -> None:
    """Go both ways from positions found in two ways, and compare the present values with the server's text.

    The positions are found by the indexes, and by reading every transaction.

    Raises:
        FaultFoundError: they differ.
    """
    from replica_client.archive.as_of.moments import moment_by_reading
    from replica_client.archive.as_of.table_state import difference

    backward = archive.as_of(table, at, live=live, lock=lock, **options)
    read, is_same = moment_by_reading(archive, at, backward.position)
    if not is_same:
        raise FaultFoundError(
            f"{table}: {at} is {backward.position} by the indexes, and {read} by reading the files; make the indexes "
            "again (remove NAME.rcindex), and report it"
        )
    forward = archive.as_of(table, read, copy=copy, copy_at=copy_at, **options)
    rows, differences = difference(forward, backward)
    if differences:
        lines = Lines()
        for one in differences:
            lines.line(f"only {'forward' if one['_weight'] > 0 else 'backward'}: {one}")
        lines.flush()
        raise FaultFoundError(f"{table} at {forward.position}: forward and backward differ")
    current = _prove_values(
        *(archive, backward.live_name, live or "", lock), copy=copy, copy_at=copy_at, **options
    )
    message(
        f"equal: {rows} rows of {table} at {forward.position}, forward over {forward.changes} changes, backward over "
        f"{backward.changes}; {current}"
    )


def _prove_values(
    archive: Archive,
    name: tuple[str, str],
    live: str,
    lock: bool,
    *,
    without: Sequence[str],
    **options: Any,
) -> str:
    """Compare the table as the archive has it now with texts that the server makes of its values.

    The two directions decode changes with one code. The texts are the server's own, and the rows of
    the archive are read from a Parquet file by rules of their own.

    Raises:
        ConfigError: the table changes all the time.
        FaultFoundError: the values differ.
    """
    from replica_client.archive.as_of.reconstruction import is_untouched, reaching
    from replica_client.archive.as_of.table_state import write_state
    from replica_client.lake.verify.sides import differing_groups, differing_rows, read_checksums

    table = ".".join(name)
    locking: Literal["brief", "never"] = "brief" if lock else "never"
    for _ in range(_TRIES):
        source = asyncio.run(read_checksums(live, name, without, locking))
        window = source.window
        archive = reaching(archive, window.low, window)
        if not is_untouched(archive, name, window.low, window.high):
            continue
        with TemporaryDirectory() as directory:
            path = Path(directory) / "rows.parquet"
            at = f"{window.high.file}:{window.high.offset}"
            state = archive.as_of(table, at, without=without, **options)
            rows = write_state(state, str(path), "parquet")
            groups = differing_groups(path, source)
            if not groups:
                return f"{rows} rows at {at} equal the server's own text"
            found, then = asyncio.run(differing_rows(path, live, source, groups, locking))
        archive = reaching(archive, then.low, then)
        if not is_untouched(archive, name, window.high, then.high):
            continue
        if not found:
            return f"{rows} rows at {at} equal the server's own text"
        lines = Lines()
        for one in found:
            lines.line(one)
        lines.flush()
        raise FaultFoundError(f"{table} at {at}: the archive's values are not the server's")
    raise ConfigError(f"{table} changes while its values are read; take a brief lock (--lock)")
