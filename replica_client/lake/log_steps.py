"""Steps: how far the change log was applied to the tables.

A step is a number: the change log's version, and inside it 2 for each statement before (rows) and
one more for the statement itself.
"""

from __future__ import annotations

from typing import Final

STEPS: Final = 1 << 20
"""Steps of one version of the change log."""


def end_of(version: int) -> int:
    """Return the last step of a version."""
    return version * STEPS + STEPS - 1


def is_inside(step: int) -> bool:
    """Return whether a step is before the end of its version."""
    return step >= 0 and step % STEPS != STEPS - 1


def first_untaken(step: int) -> int:
    """Return the first version of the change log that has changes after a step."""
    version, inside = divmod(step, STEPS)
    return version + 1 if inside == STEPS - 1 else version
