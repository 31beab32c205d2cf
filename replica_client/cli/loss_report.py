"""What could not be delivered, as users see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from replica_client.cli.output import Lines, message
from replica_client.position.losses import LOSSES_KEY, LossLedger

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
