"""Names of options in messages, in the spelling of the user's interface.

People who wrote Python, a command line, a TOML file or Spark options read the messages of the core.
A message names only options that exist in their interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Final, Literal

Surface = Literal["python", "command line", "toml", "spark"]
"""Interfaces through which options are given."""

_CURRENT: Final[ContextVar[Surface]] = ContextVar("replica_client.surface", default="python")
_REMEDIES: Final[dict[str, dict[Surface, str]]] = {
    "deliver statements": {
        "python": "take such statements with on_statement='deliver'",
        "toml": 'take such statements with on_statement = "deliver"',
    },
    "record statement": {
        "python": "count them as lost with record_losses=['statement']",
        "command line": "count them as lost with --record-losses statement",
        "toml": 'count them as lost with record_losses = ["statement"]',
        "spark": "have them as rows with recordLosses=statement",
    },
    "record gtid_gap": {
        "python": "go on with a record of the loss (record_losses=['gtid_gap'])",
        "command line": "go on with a record of the loss (--record-losses gtid_gap)",
        "toml": 'go on with a record of the loss (record_losses = ["gtid_gap"])',
        "spark": "go on with a record of the loss (recordLosses=gtid_gap)",
    },
    "incomplete rows": {
        "python": "take incomplete rows with full_rows=False",
        "command line": "take incomplete rows without --full-rows",
        "toml": "take incomplete rows without full_rows",
        "spark": "take incomplete rows without fullRows",
    },
    "positional names": {
        "python": "take names by position with on_unknown_table='positional'",
        "command line": "take names by position with --on-unknown-table positional",
        "toml": 'take names by position with on_unknown_table = "positional"',
        "spark": "take names by position with onUnknownTable=positional",
    },
    "empty answer": {
        "python": "allow_empty=True takes an empty answer",
        "command line": "--allow-empty takes an empty answer",
        "toml": "leave the pattern out of tables",
        "spark": "allowEmpty=true takes an empty answer",
    },
}


@contextmanager
def options_of(surface: Surface) -> Iterator[None]:
    """Hold a spelling of option names, for this context and the tasks that begin in it."""
    token = _CURRENT.set(surface)
    try:
        yield
    finally:
        # A generator may be closed from another context than the one in which it began.
        with suppress(ValueError):
            _CURRENT.reset(token)


def only_tables(pattern: str) -> str:
    """Return the advice how to follow only some tables."""
    written = {
        "python": f"write tables=[{pattern!r}]",
        "command line": f"write --table '{pattern}'",
        "toml": f'write tables = ["{pattern}"]',
        "spark": f"set the option tables={pattern}",
    }
    return written[_CURRENT.get()]


def remedies(*names: str) -> str:
    """Return the remedies that exist in this interface, joined by ``or``, for a message."""
    surface = _CURRENT.get()
    found = [_REMEDIES[name][surface] for name in names if surface in _REMEDIES[name]]
    return ", or ".join(found)


__all__ = ["Surface", "only_tables", "options_of", "remedies"]
