"""The policy for merging changes into a current table."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from replica_client.errors import ConfigError
from replica_client.options import size_of
from replica_client.protocol.codec.quick_dataclass import dataclass

if TYPE_CHECKING:
    from replica_client.lake.change_files import ChangeFile

_TIME: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(second|minute|hour)s?\s*")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600}
_SHARE: Final = 8
_LONGEST: Final = 3600.0
_MOST_FILES: Final = 200


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """The condition for merging changes: one of two limits, or 200 change files.

    Attributes:
        size: bytes of change files at which they are merged; None: an eighth of the table's own
            bytes.
        seconds: seconds after which they are merged; None: no limit.
    """

    size: int | None = 0
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> MergePolicy:
        """Return the policy from a text.

        The text is ``always``, ``adaptive``, a time such as ``10 minutes``, or a size such as
        ``256m``.

        Raises:
            ConfigError: the text is none of these.
        """
        if text == "always":
            return cls()
        if text == "adaptive":
            return cls(None, _LONGEST)
        if (found := _TIME.fullmatch(text)) is not None:
            return cls(1 << 62, float(found[1]) * _SECONDS[found[2]])
        size = size_of(text)
        if size is None:
            raise ConfigError(
                f'{text!r}; give "always", "adaptive", a time such as "10 minutes", or a size such as "256m"'
            )
        return cls(size)

    def is_due(self, waiting: Sequence[ChangeFile], table_size: int, since: float) -> bool:
        """Return whether the waiting change files should be merged now.

        Args:
            waiting: all waiting files.
            table_size: bytes of the table's data files.
            since: when the first of them was written, in seconds since 1970.
        """
        if len(waiting) >= _MOST_FILES:
            return True  # the catalog lists all of them, and readers open each one
        if self.seconds is not None and time.time() - since >= self.seconds:
            return True
        limit = table_size // _SHARE if self.size is None else self.size
        return sum(file.size for file in waiting) >= limit


ALWAYS: Final = MergePolicy()
"""Merges at each step: no changes wait."""
