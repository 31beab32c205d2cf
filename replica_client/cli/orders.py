"""``replica-client service``: the state of the running service, and orders to it."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from replica_client.cli.flags import Json
from replica_client.cli.output import Lines
from replica_client.cli.program import extra_module
from replica_client.cli.snapshot import snapshot
from replica_client.errors import ConfigError

EXAMPLE = "replica-client service pause shop.toml --sink lines"
_ANSWER_SECONDS: Final = 10.0


class Action(StrEnum):
    """An order to the service."""

    STATUS = "status"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    RELOAD = "reload"
    SNAPSHOT = "snapshot"
    SET_ASIDE = "set-aside"
    TAKE_BACK = "take-back"


def service(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="See below.")],
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="Of the service, which is running.")
    ],
    sink: Annotated[
        str, typer.Option("--sink", metavar="SOURCE.SINK", help="One sink; all by default.")
    ] = "",
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="DATABASE.TABLE", help="May be given again."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at the running service, and give it orders.

    \b
    status     the state of each sink
    pause      stop after what was begun is committed; stays so until resume, also after a restart
    resume     go on where it was
    restart    open source and sink again, from the last commit
    reload     read the configuration again, as SIGHUP does
    set-aside  leave a table out of one sink
    take-back  copy a table again that was set aside
    snapshot   copy a table again

    Orders go through a socket in the state directory, which only the service's user and root can open. Each is in
    the service's log and in control.jsonl of that directory.
    """  # noqa: D301 \b keeps the lines apart in --help
    if action in (Action.SNAPSHOT, Action.TAKE_BACK):
        if not table:
            raise ConfigError(f"{action} needs --table DATABASE.TABLE")
        return snapshot(config, table, sink)
    found = extra_module("replica_client.service.config_file", "daemon").read_config(config)
    from replica_client.service.order_socket import ask, chosen

    names = chosen({route.name: route.sink.name for route in found.routes}, sink)
    tables = [text.split(".", 1) for text in table or ()]
    if (action is Action.SET_ASIDE) != bool(tables) or any(len(one) != 2 for one in tables):
        raise ConfigError(
            f"{action}: set-aside needs --table DATABASE.TABLE; status, pause, resume, restart and reload take none"
        )
    if tables and len(names) != 1:
        raise ConfigError(f"--sink: give one of {', '.join(names)}")
    order = {
        "command": action.value,
        "sinks": [] if action is Action.RELOAD else names,
        "tables": tables,
    }
    answer = ask(found.state, order, found.daemon.stop_timeout + _ANSWER_SECONDS)
    lines = Lines()
    for one in answer["sinks"]:
        if as_json:
            lines.json_text(json.dumps(one))
        else:
            lines.line(_line(one))
    return lines.flush()


def _line(sink: dict[str, Any]) -> str:
    position = sink["gtids"] or (
        f"{sink['file']}:{sink['offset']}" if sink["file"] else "no position"
    )
    text = f"{sink['name']}  {sink['state']}  {sink['lag_seconds']:g} s behind  {position}"
    if sink["set_aside"]:
        text += "  set aside: " + ", ".join(one["table"] for one in sink["set_aside"])
    return f"{text}  {sink['error']}" if sink["error"] else text
