"""``replica-client history``: the life of one row."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from replica_client.cli.archive_options import Sources, key_of, opened
from replica_client.cli.find import check_one_output, chosen_ones, write_found
from replica_client.cli.flags import (
    AllowEmpty,
    Html,
    Json,
    Last,
    Limit,
    check_one_end,
    with_archive_texts,
)

EXAMPLE = "replica-client history /backup/db1 --table shop.orders --key 42"


@with_archive_texts
def history(
    sources: Sources,
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="database.table, its name at the archive's end.")
    ],
    key: Annotated[
        list[str],
        typer.Option(
            metavar="VALUE",
            help="The primary key at any time; repeat it for each of its columns, or give COLUMN=VALUE.",
        ),
    ],
    count: Annotated[bool, typer.Option("--count", help="Only how many changes.")] = False,
    json: Json = False,
    html: Html = None,
    limit: Limit = None,
    last: Last = None,
    allow_empty: AllowEmpty = False,
    **archived: Any,
) -> None:
    """Show all changes of one row, in order, through changes of its key and RENAME TABLE."""
    check_one_output(count=count, json=json, html=html)
    check_one_end(limit, last)
    with opened(sources, **archived) as archive:
        asked = key_of(key)
        assert asked is not None
        found = chosen_ones(archive.history(table, asked, allow_empty=allow_empty), limit, last)
        title = f"{table} {', '.join(key)}"
        write_found(found, count=count, json=json, html=html, title=title)
