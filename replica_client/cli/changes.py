"""``replica-client changes``: row changes of binlog files or of a live source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replica_client.cli.chosen_changes import ChangeOutput, ChosenChanges
from replica_client.cli.decode_options import AllowEmptyTables, InvalidText, KeyFile, decode_options
from replica_client.cli.row_output import RowOutput
from replica_client.cli.schema_file import LetterCase, SchemaFile, schema_of
from replica_client.cli.sources import binlog_paths, live_source, no_letter_case
from replica_client.errors import ConfigError
from replica_client.position.losses import LOSSES_KEY, LossLedger
from replica_client.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.position.stores.object import position_file as open_position_file
from replica_client.readers.saved_state import reading_state_of

if TYPE_CHECKING:
    from replica_client.rows.where import Condition

EXAMPLE = "replica-client changes mysql://repl@db1/ --tables 'shop.*' --json"


def changes(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Binlog paths in order, or one URL.")
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Only these tables: database.table with * and ?; repeatable."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Not these tables; repeatable. mysql and sys are left out unless --tables names them.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="START",
            help="earliest, latest, FILE:OFFSET, a GTID set, or a time; a saved position wins.",
        ),
    ] = None,
    stop_at_end: Annotated[
        bool, typer.Option("--stop-at-end", help="End where a live source's binlog ends now.")
    ] = False,
    position_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Continue after the position in this file, and save it there as changes go out.",
        ),
    ] = None,
    schema: SchemaFile = None,
    full_rows: Annotated[
        bool, typer.Option("--full-rows", help="Refuse row images that lack columns.")
    ] = False,
    record_losses: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Count such losses with the position instead of stopping: statement, undecodable, "
            "incomplete_row, gtid_gap, unknown_table, xa_prepare, or all; repeatable.",
        ),
    ] = None,
    lower_case_table_names: LetterCase = None,
    key_file: KeyFile = None,
    invalid_text: InvalidText = "strict",
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Only changes with a row that meets this condition: "
            "\"status = 'new' AND total >= 10.5 OR note IS NULL\".",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after N changes.")
    ] = None,
    allow_empty: AllowEmptyTables = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
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

    A pattern of --tables that matches no table is an error at the end, if there is one; --allow-empty takes it.

    A change that cannot be delivered stops the run. With --record-losses it is counted instead: the
    position file keeps the counts by kind and table, and they are printed at the end.
    """
    url = live_source(sources)
    wanted = _condition(where)
    output = _output(json=json, csv=csv, parquet=parquet, arrow=arrow)
    chosen = ChosenChanges(output, wanted, limit, allow_empty=allow_empty)
    store = None if position_file is None else open_position_file(position_file)
    if url is not None:
        # What connects takes long to import.
        from replica_client.cli.source_changes import write_source_changes
        from replica_client.readers.live.connect import connect
        from replica_client.readers.live.reconnect import ReconnectPolicy

        no_letter_case(lower_case_table_names)
        known = schema_of(schema, None)
        stream = connect(
            url,
            tables=tables,
            exclude=exclude,
            start=start,
            stop_at_end=stop_at_end,
            position_store=store,
            save_interval=0,  # commits are an interval apart already
            reconnect=ReconnectPolicy(first_attempts=1),  # somebody looks at the screen
            schema=known,
            full_rows=full_rows,
            record_losses=record_losses or (),
            allow_empty=allow_empty,
            options=decode_options(None, invalid_text=invalid_text),
        )
        write_source_changes(stream, chosen)
        return
    from replica_client.cli.file_changes import write_file_changes
    from replica_client.cli.file_progress import file_progress
    from replica_client.readers.files.binlog_file import open_binlog

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
        options=decode_options(key_file, invalid_text=invalid_text),
        schema=known or schema_of(schema, None),
        full_rows=full_rows,
        record_losses=record_losses or (),
        losses=losses,
        lower_case_table_names=lower_case_table_names,
        prepared=prepared,
    )
    # After a saved position there may be no row of a table that the run before had.
    chosen.allow_empty |= saved is not None
    with file_progress(paths, shares_terminal=not output.whole_at_end) as progress:
        write_file_changes(reader, chosen, store, progress)


def _condition(text: str | None) -> Condition | None:
    """What ``--where`` asks for.

    Raises:
        ConfigError: it is no condition.
    """
    if text is None:
        return None
    from replica_client.rows.where import parse_where

    return parse_where(text)


def _output(*, json: bool, csv: bool, parquet: str | None, arrow: str | None) -> ChangeOutput:
    """The output that the options ask for.

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
        return RowOutput(json=json)
    from replica_client.cli.table_output import BatchOutput, CsvOutput

    if parquet is not None:
        return BatchOutput(parquet, "parquet")
    return CsvOutput() if arrow is None else BatchOutput(arrow, "arrow")
