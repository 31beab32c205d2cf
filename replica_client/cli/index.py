"""``replica-client index``: the indexes of an archive's files."""

from __future__ import annotations

import json as json_lines
from typing import Any

from replica_client.cli.archive_options import Sources, opened
from replica_client.cli.flags import Json, with_archive
from replica_client.cli.output import Column, Lines
from replica_client.storage.files import file_status

EXAMPLE = "replica-client index /backup/db1"


@with_archive
def index(
    sources: Sources,
    json: Json = False,
    **archived: Any,
) -> None:
    """Make the indexes that find, history and stats use; those that are there and fit are kept.

    An index is a file NAME.rcindex beside the binlog file NAME. The other commands make it by themselves. With --schema
    the keys of tables are known whose CREATE TABLE is not in the archive, on sources without
    binlog_row_metadata=FULL.
    """
    lines = Lines(
        (
            Column("file", 24),
            Column("bytes", 14, True),
            Column("index", 12, True),
            Column("blocks", 8, True),
            Column("made"),
        )
    )
    with opened(sources, **archived) as archive:
        if not json:
            lines.heading()
        for file in archive.index():
            kept = file.where is not None and file.base >= 0
            size = file_status(file.where).size if kept and file.where is not None else None
            blocks = len(file.index.blocks)
            if json:
                entry = {
                    "file": file.listed.name,
                    "bytes": file.listed.size,
                    "index_bytes": size,
                    "blocks": blocks,
                    "made": file.made,
                    "unfiltered": sorted(
                        {f"{t.database}.{t.name}" for t in file.index.tables if t.unfiltered}
                    ),
                }
                lines.json_text(json_lines.dumps(entry))
                continue
            shown = "not kept" if size is None else str(size)
            made = "yes" if file.made else "no"
            lines.row([file.listed.name, str(file.listed.size), shown, str(blocks), made])
        lines.flush()
