"""``replica-client changes``: row changes of binlog files or of a live source."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replica_client.cli.acknowledging import ChangeOutput, ChosenChanges
from replica_client.cli.flags import (
    Begin,
    Exclude,
    Json,
    KeyFile,
    Last,
    LetterCase,
    Limit,
    SchemaFile,
    StopAtEnd,
    Tables,
    Until,
    Where,
    check_one_end,
    decode_options,
    of_files,
    with_declared,
)
from replica_client.cli.reading import schema_of
from replica_client.cli.row_output import RowOutput
from replica_client.cli.sources import binlog_paths, live_source, no_letter_case
from replica_client.errors import ConfigError
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.stream.position.stores.object import position_file as open_position_file
from replica_client.stream.transactions.arguments import ReadingEnd, parse_start
from replica_client.stream.transactions.loss_watch import reading_state_of

if TYPE_CHECKING:
    from replica_client.rows.where import Condition


@with_declared
def changes(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Binlog paths in order, or one URL.")
    ],
    tables: Tables = None,
    exclude: Exclude = None,
    start: Begin = None,
    until: Until = None,
    stop_at_end: StopAtEnd = False,
    position_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Continue after the position in this file, and save it there as changes go out.",
        ),
    ] = None,
    schema: SchemaFile = None,
    lower_case_table_names: LetterCase = None,
    key_file: KeyFile = None,
    where: Where = None,
    limit: Limit = None,
    last: Last = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="The rows of one table as CSV.")] = False,
    parquet: Annotated[
        str | None, typer.Option(metavar="FILE", help="The rows of one table as a Parquet file.")
    ] = None,
    arrow: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The rows of one table as an Arrow stream; - for standard output."
        ),
    ] = None,
    **reading: Any,
) -> None:
    """Print row changes: file, position, GTID, time, kind, table, the row before and after.

    With --position-file a run continues where the one before ended: a position is saved only after
    the changes before it were handed on.

    With --json SQL NULL is null; where a JSON column holds the document null, "json_null" names it:
    {"before": ["doc"], "after": ["doc"]}. It is left out where there is none.

    --csv, --parquet and --arrow have the columns of record batches: _change_type and so on, then the
    table's; an update is two rows. A file appears when it is whole, and the position is saved then.

    --where takes = != < <= > >= IS NULL, IN (…), AND, OR, NOT and parentheses; texts and times stand in
    'quotes', names with other signs in `backquotes`. What a row image left out is an error, not NULL.

    A saved position in --position-file has precedence over --since. A pattern of --table that matches no table is an
    error at the end, if there is one; --allow-empty takes it.

    On a terminal lines are cropped to its width, with the key and what changed first; --json and a pipe have all.

    A change that cannot be delivered stops the run. With --record-losses it is counted instead: the
    position file keeps the counts by kind and table, and they are printed at the end.
    """
    url = live_source(sources)
    wanted = _condition(where)
    _check_last(last, limit, position_file, endless=url is not None and not (stop_at_end or until))
    statements = reading["on_statement"] == "deliver"
    if statements and (where or limit or last or csv or parquet or arrow):
        raise ConfigError(
            "--on-statement deliver prints statements between the rows: leave --where, --limit, --last, --csv,"
            " --parquet and --arrow out"
        )
    output = _output(json=json, csv=csv, parquet=parquet, arrow=arrow, statements=statements)
    chosen = ChosenChanges(output, wanted, limit, last, allow_empty=reading["allow_empty"])
    store = None if position_file is None else open_position_file(position_file)
    if url is not None:
        # What connects takes long to import.
        from replica_client.cli.source_changes import write_source_changes
        from replica_client.stream.live.connect import connect
        from replica_client.stream.live.stream_options import ReconnectPolicy

        no_letter_case(lower_case_table_names)
        known = schema_of(schema, None)
        end = ReadingEnd.of(start, until)
        stream = connect(
            url,
            tables=tables,
            exclude=exclude,
            start=start,
            stop_at_end=stop_at_end or end.is_past,
            position_store=store,
            save_interval=0,  # commits are an interval apart already
            reconnect=ReconnectPolicy(first_attempts=1),  # somebody looks at the screen
            schema=known,
            **reading,
        )
        write_source_changes(stream, chosen, url, end)
        return
    from replica_client.cli.file_changes import file_progress, write_file_changes
    from replica_client.stream.files.binlog_file import open_binlog

    paths = binlog_paths(sources)
    saved = None if store is None else store.load_checkpoint()
    with reading_state_of(store):
        losses = LossLedger.from_state(saved.state.get(LOSSES_KEY, [])) if saved else None
        prepared = PreparedLedger.from_state(saved.state.get(PREPARED_KEY, [])) if saved else None
        known = schema_of(None, saved)
    reader = open_binlog(
        paths,
        tables=tables,
        exclude=exclude,
        start=start if saved is None else saved.position,
        stop=until,
        options=decode_options(key_file),
        schema=known or schema_of(schema, None),
        losses=losses,
        lower_case_table_names=lower_case_table_names,
        prepared=prepared,
        **of_files({**reading, "allow_empty": True}, open_binlog),  # checked below
    )
    # After a saved position there may be no row of a table that the run before had.
    chosen.allow_empty |= saved is not None
    with file_progress(paths, shares_terminal=not output.whole_at_end) as progress:
        times = "" if chosen.allow_empty else _times(start, until)
        write_file_changes(reader, chosen, store, progress, times)


def _times(start: str | None, until: str | None) -> str:
    """Return the range as the user wrote it where one of its ends is a time; else nothing."""
    given = {"since": start, "until": until}
    found = {name: text for name, text in given.items() if text is not None}
    times = (parse_start(text, "latest", name) for name, text in found.items())
    if not any(isinstance(one, datetime.datetime) for one in times):
        return ""
    return ", ".join(f"{name} {text}" for name, text in found.items())


def _condition(text: str | None) -> Condition | None:
    """Return the condition of ``--where``.

    Raises:
        ConfigError: it is no condition.
    """
    if text is None:
        return None
    from replica_client.rows.where import parse_where

    return parse_where(text)


def _check_last(
    last: int | None, limit: int | None, position_file: str | None, *, endless: bool
) -> None:
    """Refuse ``--last`` where it has no end, or the position of what was written is not that of what was read.

    Raises:
        ConfigError: it cannot be used here.
    """
    check_one_end(limit, last)
    if last is None:
        return
    if position_file is not None:
        raise ConfigError("--last prints only some changes: leave --position-file out")
    if endless:
        raise ConfigError("--last of a live source needs an end: add --stop-at-end or --until")


def _output(
    *,
    json: bool,
    csv: bool,
    parquet: str | None,
    arrow: str | None,
    statements: bool,
) -> ChangeOutput:
    """Return the output that the options ask for.

    Raises:
        ConfigError: several, or a file that cannot be one.
        MissingExtraError: pyarrow is not installed.
        OSError: a file cannot be made.
    """
    given = {
        "--json": json,
        "--csv": csv,
        "--parquet": parquet is not None,
        "--arrow": arrow is not None,
    }
    several = [name for name, wanted in given.items() if wanted]
    if len(several) > 1:
        raise ConfigError(f"give one of {' and '.join(several)}")
    if not several or json:
        return RowOutput(json=json, statements=statements)
    from replica_client.cli.row_output import BatchOutput, CsvOutput

    if parquet is not None:
        return BatchOutput(parquet, "parquet")
    return CsvOutput() if arrow is None else BatchOutput(arrow, "arrow")
