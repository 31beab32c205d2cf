"""The end of reading, schema files, and losses as users see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from replica_client.cli.output import Lines, message
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.arguments import read_schema_file


def schema_of(path: Path | None, saved: Checkpoint | None) -> SchemaHistory | None:
    """Return the history saved with a position, else the one in a file, else None.

    Raises:
        SchemaError: it is damaged.
    """
    if saved is not None and STATE_KEY in saved.state:
        return SchemaHistory.from_state(saved.state[STATE_KEY])
    return None if path is None else read_schema_file(path)


ALLOW_EMPTY_HINT: Final = "; --allow-empty takes an empty answer"


def tell_losses(losses: LossLedger) -> None:
    """Say on standard error what was lost so far; nothing when nothing was."""
    for count in losses.counts:
        message(f"lost: {count}; {count.reason}")


def tell_unmatched(patterns: Sequence[str]) -> None:
    """Say on standard error which patterns matched no table; nothing when each did."""
    if patterns:
        several = ", ".join(repr(pattern) for pattern in patterns)
        message(
            f"no table was read that matches --table {several}; check the spelling and the letter case"
        )


def print_losses(state: Mapping[str, object], lines: Lines, *, json: bool) -> None:
    """Print the losses that a checkpoint carries: a line for each kind and table.

    Raises:
        PositionStoreError: the checkpoint is damaged.
    """
    for count in LossLedger.from_state(state.get(LOSSES_KEY, [])).counts:
        if json:
            lines.json({"lost": asdict(count)})
        else:
            lines.line(f"lost: {count}")
