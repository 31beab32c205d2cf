"""SOURCE as users type it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from replica_client.errors import ConfigError
from replica_client.storage.files import has_pattern
from replica_client.storage.location import Location, location

SCHEMES = ("mysql://", "mariadb://")


def _refusal(reason: str, parameter: str) -> Exception:
    import typer  # takes long to import

    return typer.BadParameter(reason, param_hint=parameter)


def is_live(source: str) -> bool:
    """Whether a SOURCE is a live one."""
    return source.startswith(SCHEMES)


def live_source(sources: Sequence[str]) -> str | None:
    """Return the URL, when the only SOURCE is a URL; None when they are paths.

    Raises:
        typer.BadParameter: a URL among others.
        ConfigError: one with a scheme that is neither a live source's nor an object store's.
    """
    urls = [source for source in sources if is_live(source)]
    if not urls:
        for source in sources:
            _located(source)
        return None
    if len(sources) > 1:
        raise _refusal("give one URL, or one or more paths", "SOURCE")
    return urls[0]


def no_letter_case(lower_case_table_names: int | None) -> None:
    """Refuse ``--lower-case-table-names`` beside a URL.

    Raises:
        typer.BadParameter: it was given.
    """
    if lower_case_table_names is not None:
        raise _refusal(
            "a live source reports it; give it with binlog files only",
            "--lower-case-table-names",
        )


def binlog_paths(sources: Sequence[str]) -> list[Location]:
    """Return paths and URLs of object stores, after a check that each path can be read.

    Raises:
        typer.BadParameter: one is a live source.
        ConfigError: one is another URL.
        OSError: one is not there, or may not be read.
    """
    found = []
    for source in sources:
        if is_live(source):
            raise _refusal("give paths, not URLs of servers", "PATH")
        where = _located(source)
        if isinstance(where, Path) and (where.exists() or not has_pattern(where)):
            if where.is_dir():
                os.scandir(where).close()
            else:
                where.open("rb").close()
        found.append(where)
    return found


def _located(source: str) -> Location:
    try:
        return location(source)
    except ConfigError as error:
        raise _refusal(f"{error}, or mysql:// or mariadb:// for a live source", "SOURCE") from None
