"""``replica-client snapshot``: ask the service for the rows of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.extras import extra_module
from replica_client.cli.output import Lines
from replica_client.errors import ConfigError

_MIRRORS = frozenset(("sqlite", "mysql", "postgres", "duckdb", "clickhouse"))
EXAMPLE = "replica-client snapshot shop.toml --sink lines --table shop.orders"


def snapshot(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="Of the service, which may be running.")
    ],
    sink: Annotated[
        str, typer.Option("--sink", metavar="SOURCE.SINK", help="Where the rows are to go.")
    ],
    table: Annotated[
        list[str], typer.Option("--table", metavar="DATABASE.TABLE", help="May be given again.")
    ],
    where: Annotated[
        str, typer.Option("--where", metavar="CONDITION", help="SQL: only these rows.")
    ] = "",
) -> None:
    """Copy tables again into a sink of the service, also tables that were set aside.

    Sinks of events get the rows chunk by chunk while the stream goes on. A mirror's tables are emptied and filled in
    place, and its other tables wait for that. The request is a file in the state directory of the service, which takes
    it within a second while it runs, or at its next start. It survives any kill, and its rows come once.
    """
    found = extra_module("replica_client.daemon.config_file", "daemon").read_config(config)
    from replica_client.daemon.snapshot_requests import SnapshotRequests

    routes = {route.name: route for route in found.routes}
    named = [name for name, route in routes.items() if sink in (name, route.sink.name)]
    if len(named) != 1:
        raise ConfigError(f"--sink {sink}: give one of {', '.join(routes)}")
    route = routes[named[0]]
    tables = []
    for text in table:
        database, point, name = text.partition(".")
        if not (database and point and name):
            raise ConfigError(f"--table {text}: DATABASE.TABLE is wanted")
        tables.append((database, name))
    if route.sink.type == "parquet":
        raise ConfigError(f"{route.name}: a sink of type parquet takes no rows on request")
    if route.sink.type in _MIRRORS and where:
        raise ConfigError(f"{route.name}: a mirror copies whole tables; leave --where out")
    request = SnapshotRequests(found.state, route.name).add(tables, where)
    Lines().line(f"{route.name}: snapshot {request.name} of {', '.join(table)} is asked for")
