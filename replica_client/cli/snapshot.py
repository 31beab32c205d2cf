"""``replica-client snapshot``: copy tables again, beside the running service or pipeline."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from replica_client.cli.output import Lines, progress_console
from replica_client.cli.program import FaultFoundError, extra_module
from replica_client.errors import ConfigError

_LOOK_SECONDS: Final = 0.5
_PAGE_SECONDS: Final = 5.0


def snapshot(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG.toml", help="Of the service or the pipeline, which may be running."
        ),
    ],
    table: Annotated[
        list[str], typer.Option("--table", metavar="DATABASE.TABLE", help="May be given again.")
    ],
    sink: Annotated[
        str,
        typer.Option(
            "--sink",
            metavar="SOURCE.SINK",
            help="Where the rows are to go; not needed if there is one sink.",
        ),
    ] = "",
    where: Annotated[
        str, typer.Option("--where", metavar="CONDITION", help="Only these rows, as for changes.")
    ] = "",
    where_sql: Annotated[
        str,
        typer.Option(
            "--where-sql", metavar="CONDITION", help="Likewise, in SQL, which the source runs."
        ),
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Show progress until the rows are in the sink.")
    ] = False,
) -> None:
    """Copy tables again into a sink of the service or the lake of a pipeline, also tables that were set aside.

    Sinks of events get the rows chunk by chunk while the stream goes on. A mirror's tables are emptied and filled in
    place, and its other tables wait for that. A lake's tables are replaced. The request is a file that the running
    service or pipeline takes within seconds, or at its next start. It survives any kill, and its rows come once.
    """
    if _is_pipeline(config):
        return _copy_in_lake(config, table, sink, where or where_sql, wait=wait)
    found = extra_module("replica_client.service.config_file", "daemon").read_config(config)
    from replica_client.rows.where import parse_where
    from replica_client.service.mirrors import MIRRORS
    from replica_client.service.order_socket import ask
    from replica_client.service.snapshot_progress import SnapshotRequests

    routes = {route.name: route for route in found.routes}
    named = [name for name, route in routes.items() if sink in (name, route.sink.name, "")]
    if len(named) != 1:
        raise ConfigError(f"--sink {sink}: give one of {', '.join(routes)}")
    route = routes[named[0]]
    tables = []
    for text in table:
        database, point, name = text.partition(".")
        if not (database and point and name):
            raise ConfigError(f"--table {text}: it must be DATABASE.TABLE")
        tables.append((database, name))
    if where and where_sql:
        raise ConfigError("give --where or --where-sql")
    if route.sink.type in MIRRORS and (where or where_sql):
        raise ConfigError(f"{route.name}: a mirror copies whole tables; leave --where out")
    requests = SnapshotRequests(found.state, route.name)
    if where:
        parse_where(where)
    request = requests.add(tables, where_sql, where)
    lines = Lines()
    lines.line(f"{route.name}: snapshot {request.name} of {', '.join(table)} is asked for")
    lines.flush()
    if not wait:
        return None

    def left() -> str:
        try:
            page = ask(found.state, {"command": "status", "sink": route.name}, _PAGE_SECONDS)[
                "sinks"
            ][0]
        except (ConfigError, KeyError, IndexError):
            page = None
        if page is not None:
            for error in page["errors"]:
                if request.name in error["text"]:
                    raise FaultFoundError(error["text"])
        if requests.has(request.name):
            copying = "" if page is None else page["copying"]
            return copying or (
                "waits for the service" if page is not None else "waits: no service answers"
            )
        reasons = {one["table"]: one["reason"] for one in page["set_aside"]} if page else {}
        if failed := [f"{one}: {reasons[one]}" for one in table if one in reasons]:
            raise FaultFoundError(f"{route.name}: still set aside: {'; '.join(failed)}")
        return ""

    _wait(left)
    lines.line(f"{route.name}: snapshot {request.name} is done")
    return lines.flush()


def _is_pipeline(config: Path) -> bool:
    """Return whether a file configures a pipeline; a malformed file is left to its reader."""
    try:
        found = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found.get("source"), dict)


def _copy_in_lake(
    config: Path, tables: Sequence[str], sink: str, where: str, *, wait: bool
) -> None:
    if where:
        raise ConfigError(f"{config}: a lake copies whole tables; leave --where out")
    if sink not in ("", "lake"):
        raise ConfigError(f"--sink {sink}: a pipeline has one sink; leave it out")
    module = extra_module("replica_client.lake.maintenance", "spark")
    names = module.copy_tables(config, tables)
    lines = Lines()
    for name in names:
        lines.line(f"{name}: its copy is asked for; the pipeline makes it")
    lines.flush()
    if not wait:
        return

    def left() -> str:
        pending, failed = module.copy_progress(config, names)
        if failed and not pending:
            stated = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
            raise FaultFoundError(f"not copied: {stated}")
        return ", ".join(pending)

    _wait(left)
    for name in names:
        lines.line(f"{name}: copied")
    lines.flush()


def _wait(left: Callable[[], str]) -> None:
    """Show what is left until nothing is: on a terminal in place, else one line for each change."""
    console = progress_console()
    said = ""
    with console.status("") if console.is_terminal else _Nothing() as status:
        while text := left():
            if status is not None:
                status.update(text)
            elif text != said:
                console.print(text, markup=False, highlight=False, soft_wrap=True)
            said = text
            time.sleep(_LOOK_SECONDS)


class _Nothing:
    """A context for output that is no terminal."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        return None
