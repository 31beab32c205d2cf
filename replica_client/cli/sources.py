"""SOURCE as users type it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

SCHEMES = ("mysql://", "mariadb://")


def _refusal(reason: str, parameter: str) -> Exception:
    import typer  # takes long to import

    return typer.BadParameter(reason, param_hint=parameter)


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
        raise _refusal("give one URL, or one or more paths", "SOURCE")
    if not urls[0].startswith(SCHEMES):
        scheme = urls[0].split("://", 1)[0]
        raise _refusal(f"{scheme}:// is not mysql:// or mariadb://", "SOURCE")
    return urls[0]


def no_letter_case(lower_case_table_names: int | None) -> None:
    """Refuse ``--lower-case-table-names`` beside a URL.

    Raises:
        typer.BadParameter: it was given.
    """
    if lower_case_table_names is not None:
        raise _refusal(
            "a live source tells it; give it with binlog files only",
            "--lower-case-table-names",
        )


def binlog_paths(sources: Sequence[str]) -> list[Path]:
    """The paths, each of which can be read.

    Raises:
        typer.BadParameter: one is a URL.
        OSError: one is not there, or may not be read.
    """
    for source in sources:
        if is_url(source):
            raise _refusal("give paths, not URLs", "PATH")
        if Path(source).is_dir():
            os.scandir(source).close()
        else:
            Path(source).open("rb").close()
    return [Path(source) for source in sources]
