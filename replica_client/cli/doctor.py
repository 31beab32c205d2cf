"""``replica-client doctor``: whether a source can be followed, with each finding's remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from replica_client.cli.flags import Json, Tables
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines
from replica_client.cli.program import FaultFoundError
from replica_client.cli.sources import live_source
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.position import Position
from replica_client.service.doctor.source_facts import Finding, Severity, to_copy
from replica_client.service.doctor.standing import can_be_followed, diagnose
from replica_client.service.doctor.topology import diagnose_topology
from replica_client.stream.position.stores.object import position_file as open_position_file

_STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "yellow",
    Severity.PROBLEM: "bold red",
}
_WIDTH_OF_PIPES = 160


def doctor(
    urls: Annotated[
        list[str], typer.Argument(metavar="URL", help="The source, or the servers of a topology.")
    ],
    position_file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Whether the source still has what follows the position in it. Repeatable.",
        ),
    ] = None,
    server_id: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=(1 << 32) - 1, help="The server id to be used."),
    ] = None,
    table: Tables = None,
    json: Json = False,
) -> None:
    """Look at everything that following a source depends on.

    Each finding is ok, a note, a warning or a problem, with its remedy. Reads the start of the newest
    binlog file, and changes nothing. After the findings are statements and lines of my.cnf to copy, those
    of mere notes as comments. Ends with status 1 when a problem prevents following.

    With several URLs it also looks at replication between the servers: threads, lag, transactions that a source
    has purged and a replica or a position needs, and transactions that only a replica has.
    """
    for url in urls:
        if live_source([url]) is None:
            raise typer.BadParameter("give a mysql:// or mariadb:// URL", param_hint="URL")
    positions: dict[str, Position] = {}
    for path in position_file or ():
        saved = open_position_file(path).load()
        if saved is None:
            raise ConfigError(f"{path}: there is no position file; check the path")
        positions[path] = saved
    if len(urls) > 1 or len(positions) > 1:
        _topology(urls, positions, server_id, table or (), json)
        return
    url, position = urls[0], next(iter(positions.values()), None)
    findings: list[Finding] = []

    async def look() -> None:
        findings.extend(
            await diagnose(url, server_id=server_id, position=position, tables=table or ())
        )

    run_async(look())
    if json:
        lines = Lines()
        for finding in findings:
            lines.json(asdict(finding))
    else:
        _print(findings)
        lines = Lines()
        mends = list(to_copy(findings))
        for line in ["", *mends, ""] if mends else []:
            lines.line(line)
        lines.flush()
        if can_be_followed(findings):
            typer.echo(_summary(findings))
    if not can_be_followed(findings):
        count = sum(finding.severity is Severity.PROBLEM for finding in findings)
        raise FaultFoundError(
            f"{count} {'problem prevents' if count == 1 else 'problems prevent'} following this source; "
            "see the remedies above"
        )


def _topology(
    urls: Sequence[str],
    positions: Mapping[str, Position],
    server_id: int | None,
    tables: Sequence[str],
    json: bool,
) -> None:
    found: dict[str, list[Finding]] = {}

    async def look() -> None:
        found.update(await diagnose_topology(urls, positions, server_id=server_id, tables=tables))

    run_async(look())
    lines = Lines()
    for name, findings in found.items():
        if json:
            for finding in findings:
                lines.json({"server": name, **asdict(finding)})
        else:
            typer.echo(f"{printable(name)}")
            _print(findings)
            typer.echo("")
    lines.flush()
    bad = [name for name, findings in found.items() if not can_be_followed(findings)]
    if bad:
        raise FaultFoundError(f"problems at {', '.join(bad)}; see the remedies above")
    if not json:
        typer.echo(f"No problem at {len(urls)} servers.")


def _summary(findings: list[Finding]) -> str:
    """Sum up findings without a problem in one line."""
    counts = Counter(finding.severity for finding in findings)
    shown = (Severity.WARNING, Severity.NOTE)
    listed = [f"{counts[one]} {one}{'s' * (counts[one] > 1)}" for one in shown if counts[one]]
    return f"This source can be followed: {', '.join(listed) or 'nothing to fix'}."


def _print(findings: list[Finding]) -> None:
    console = Console(highlight=False)
    is_terminal = console.is_terminal
    if not is_terminal:
        console.width = _WIDTH_OF_PIPES
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("severity", no_wrap=True)
    table.add_column("check", no_wrap=True)
    table.add_column("finding", overflow="fold")
    for finding in findings:
        text = Text(printable(finding.text))
        if finding.remedy:
            text.append(f"\n→ {printable(finding.remedy)}", style="dim")
        table.add_row(
            Text(str(finding.severity), style=_STYLES[finding.severity]), finding.check, text
        )
    if is_terminal:
        console.print(table)
        return
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        typer.echo(line.rstrip())
