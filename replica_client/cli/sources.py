"""SOURCE and START as users type them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer

from replica_client.gtid import parse_gtid_set
from replica_client.position.position import Position

SCHEMES = ("mysql://", "mariadb://")


def is_url(source: str) -> bool:
    """Whether a SOURCE is a live one."""
    return "://" in source


def live_source(sources: Sequence[str]) -> str | None:
    """The URL, when the one SOURCE is a URL; None when they are paths.

    Raises:
        typer.BadParameter: a URL among others, or one with another scheme.
    """
    urls = [source for source in sources if is_url(source)]
    if not urls:
        return None
    if len(sources) > 1:
        raise typer.BadParameter("give one URL, or one or more paths", param_hint="SOURCE")
    if not urls[0].startswith(SCHEMES):
        scheme = urls[0].split("://", 1)[0]
        raise typer.BadParameter(f"{scheme}:// is not mysql:// or mariadb://", param_hint="SOURCE")
    return urls[0]


def binlog_paths(sources: Sequence[str]) -> list[Path]:
    """The paths, each of which can be read.

    Raises:
        typer.BadParameter: one is a URL.
        OSError: one is not there, or may not be read.
    """
    for source in sources:
        if is_url(source):
            raise typer.BadParameter("give paths, not URLs", param_hint="PATH")
        if Path(source).is_dir():
            os.scandir(source).close()
        else:
            Path(source).open("rb").close()
    return [Path(source) for source in sources]


Start = Position | datetime | str | None


def parse_start(text: str | None) -> Start:
    """``--start``: earliest, latest, FILE:OFFSET, a GTID set, or a time (ISO 8601, UTC).

    Raises:
        typer.BadParameter: none of these.
    """
    if text is None or text in ("earliest", "latest"):
        return text
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        # First, because one GTID (uuid:5) has the form of FILE:OFFSET.
        parse_gtid_set(text)
        return text
    except ValueError:
        pass
    try:
        return Position.parse(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, FILE:OFFSET, a GTID set or a time",
            param_hint="--start",
        ) from error
