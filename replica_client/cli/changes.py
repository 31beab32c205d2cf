"""``replica-client changes``: row changes of binlog files or of a live source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.file_changes import write_file_changes
from replica_client.cli.keys import InvalidText, KeyFile, decode_options
from replica_client.cli.row_output import RowOutput
from replica_client.cli.schema_file import LetterCase, SchemaFile, schema_of
from replica_client.cli.sources import binlog_paths, live_source, no_letter_case
from replica_client.position.losses import LOSSES_KEY, LossLedger
from replica_client.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.position.stores.file import FilePositionStore
from replica_client.readers.binlog_file import open_binlog
from replica_client.readers.saved_state import reading_state_of

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
        Path | None,
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
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print row changes: file, position, GTID, time, kind, table, the row before and after.

    With --position-file a run continues where the one before ended: a position is saved only after
    the changes before it were handed on.

    With --json SQL NULL is null; where a JSON column holds the document null, "json_null" names it:
    {"before": ["doc"], "after": ["doc"]}. It is left out where there is none.

    A change that cannot be delivered stops the run. With --record-losses it is counted instead: the
    position file keeps the counts by kind and table, and they are printed at the end.
    """
    url = live_source(sources)
    output = RowOutput(json=json)
    store = None if position_file is None else FilePositionStore(position_file)
    if url is not None:
        # What connects takes long to import.
        from replica_client.cli.source_changes import write_source_changes
        from replica_client.readers.connect import connect

        no_letter_case(lower_case_table_names)
        known = schema_of(schema, None)
        stream = connect(
            url,
            tables=tables,
            start=start,
            stop_at_end=stop_at_end,
            position_store=store,
            save_interval=0,  # commits are an interval apart already
            schema=known,
            full_rows=full_rows,
            record_losses=record_losses or (),
            options=decode_options(None, invalid_text=invalid_text),
        )
        write_source_changes(stream, output)
        return
    paths = binlog_paths(sources)
    saved = None if store is None else store.load_checkpoint()
    with reading_state_of(store):
        losses = LossLedger.from_state(saved.state.get(LOSSES_KEY, [])) if saved else None
        prepared = PreparedLedger.from_state(saved.state.get(PREPARED_KEY, [])) if saved else None
        known = schema_of(None, saved)
    reader = open_binlog(
        paths,
        tables=tables,
        start=start if saved is None else saved.position,
        options=decode_options(key_file, invalid_text=invalid_text),
        schema=known or schema_of(schema, None),
        full_rows=full_rows,
        record_losses=record_losses or (),
        losses=losses,
        lower_case_table_names=lower_case_table_names,
        prepared=prepared,
    )
    write_file_changes(reader, output, store)
