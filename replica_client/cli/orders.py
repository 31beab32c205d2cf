"""``replica-client service``: the state of the running service, and orders to it."""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from enum import StrEnum
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from replica_client.cli.flags import Json
from replica_client.cli.output import Lines
from replica_client.cli.program import extra_module
from replica_client.errors import ConfigError
from replica_client.stream.transport.connect_options import is_loopback

if TYPE_CHECKING:
    from replica_client.service.order_socket import Order

_ANSWER_SECONDS: Final = 10.0
_HTTP_SECONDS: Final = 60.0
_MAX_ANSWER: Final = 64 << 20
_MAX_TEXT: Final = 1000
_TOKEN: Final = "REPLICA_CLIENT_CONTROL_TOKEN"  # noqa: S105 a name


class Action(StrEnum):
    """An order to the service."""

    STATUS = "status"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    RELOAD = "reload"
    SKIP = "skip"
    SNAPSHOT = "snapshot"
    CANCEL = "cancel"
    SET_ASIDE = "set-aside"
    TAKE_BACK = "take-back"


def service(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="See below.")],
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG.toml",
            help="Of the service, which is running; or the URL of its status page, with --token-file.",
        ),
    ],
    sink: Annotated[
        str, typer.Option("--sink", metavar="SOURCE.SINK", help="One sink; all by default.")
    ] = "",
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="DATABASE.TABLE", help="May be given again."),
    ] = None,
    gtid: Annotated[
        str, typer.Option("--gtid", metavar="SET", help="skip: the GTID of the transaction.")
    ] = "",
    position: Annotated[
        str,
        typer.Option(
            "--position",
            metavar="FILE:OFFSET",
            help="skip: the begin of the transaction, or an event in it.",
        ),
    ] = "",
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="WHEN",
            help="pause: before the first transaction at a FILE:OFFSET or a time, or after a GTID set.",
        ),
    ] = "",
    where: Annotated[
        str,
        typer.Option(
            "--where", metavar="CONDITION", help="snapshot: only these rows, as for changes."
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help=f"The token; or set {_TOKEN}."),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="Authorities for an https URL, in PEM format."),
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
    skip       leave out one transaction, which counts as a loss
    snapshot   copy a table again
    cancel     forget what was ordered and is not done: a skip, a pause --at, copies
    set-aside  leave a table out of one sink
    take-back  copy a table again that was set aside

    Orders go through a socket in the state directory, which only the service's user and root can open, or by HTTP
    with the control_token of the configuration. Each is in the service's log and in control.jsonl of that directory.
    """  # noqa: D301 \b keeps the lines apart in --help
    orders = extra_module("replica_client.service.order_socket", "daemon")
    if gtid and position:
        raise ConfigError("skip: give --gtid or --position")
    given = {
        "command": action.value,
        "sink": sink,
        "tables": table or [],
        "transaction": gtid or position,
        "at": at,
        "where": where,
    }
    order: Order = orders.Order.parse(given)
    if config.startswith(("http://", "https://")):
        answer = _post(config, order.to_json(), token_file, ca)
    else:
        found = extra_module("replica_client.service.config_file", "daemon").read_config(config)
        order.sinks({route.name: route.sink.name for route in found.routes})
        seconds = found.daemon.stop_timeout + _ANSWER_SECONDS
        answer = orders.ask(found.state, order.to_json(), seconds)
    lines = Lines()
    for one in answer["sinks"]:
        if as_json:
            lines.json_text(json.dumps(one))
        else:
            lines.line(_line(one))
    return lines.flush()


def _post(url: str, order: dict[str, Any], token_file: Path | None, ca: Path | None) -> Any:
    """Give an order over HTTP, and return the answer.

    Raises:
        ConfigError: no service answers there, or it refuses.
    """
    token = os.environ.get(_TOKEN, "")
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise ConfigError(f"--token-file {token_file}: {error}") from None
    where = f"--token-file {token_file}" if token_file is not None else _TOKEN
    if not token:
        raise ConfigError(f"{url}: give --token-file FILE, or set {_TOKEN}")
    if not (token.isascii() and token.isprintable() and " " not in token):
        # urllib's error would show it.
        raise ConfigError(f"{where}: a token is one word of ASCII characters")
    if url.startswith("http://") and not is_loopback(urlsplit(url).hostname or ""):
        raise ConfigError(
            f"{url}: the token would go there in clear; give https://, with --ca FILE"
        )
    try:
        tls = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise ConfigError(f"--ca {ca}: {error.strerror or error}") from None
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(  # noqa: S310 the scheme is checked
        f"{url.rstrip('/')}/control", json.dumps(order).encode(), headers
    )
    # A proxy of the environment, or a redirection, would get the token.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls), _NoRedirects
    )
    try:
        with opener.open(request, timeout=_HTTP_SECONDS) as answer:
            found = json.loads(_bounded(answer))
    except urllib.error.HTTPError as error:
        raise ConfigError(f"{url}: {_refusal(error)}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise ConfigError(f"{url}: {getattr(error, 'reason', error)}") from None
    if not isinstance(found, dict) or not isinstance(found.get("sinks"), list):
        raise ConfigError(f"{url}: what answers there is no service of ours")
    return found


def _bounded(answer: HTTPResponse) -> bytes:
    """Read the body of an answer.

    Raises:
        OSError: it is too long, or takes too long.
    """
    deadline, body = time.monotonic() + _HTTP_SECONDS, bytearray()
    while part := answer.read1(64 << 10):
        body += part
        if len(body) > _MAX_ANSWER or time.monotonic() > deadline:
            raise OSError("its answer is too long, or takes too long")
    return bytes(body)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _refusal(error: urllib.error.HTTPError) -> str:
    try:
        body = _bounded(error.fp) if isinstance(error.fp, HTTPResponse) else b""
        return str(json.loads(body)["error"])[:_MAX_TEXT]
    except (OSError, ValueError, KeyError, TypeError, HTTPException):
        known = {
            404: "it takes no orders; set control_token in [daemon]",
            405: "it takes no orders",
        }
        return known.get(error.code, f"status {error.code}")


def _line(sink: dict[str, Any]) -> str:
    position = sink["gtids"] or (
        f"{sink['file']}:{sink['offset']}" if sink["file"] else "no position"
    )
    parts = [sink["name"], sink["state"], f"{sink['lag_seconds']:g} s behind", position]
    if sink["copying"]:
        parts.append(f"copying: {sink['copying']}")
    if sink["pause_at"]:
        parts.append(f"pauses at {sink['pause_at']}")
    if sink["skips"]:
        parts.append(f"will skip {', '.join(sink['skips'])}")
    if sink["set_aside"]:
        parts.append(f"set aside: {', '.join(one['table'] for one in sink['set_aside'])}")
    return "  ".join(filter(None, (*parts, sink["error"])))
