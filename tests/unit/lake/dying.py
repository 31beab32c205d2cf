"""Deaths of an engine of the lake, before or after what it does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replica_client.lake import lake_catalog, state_table


class Killed(BaseException):
    """The engine is dead; what it wrote is there."""


class Deaths:
    """Lets functions die now and then.

    Args:
        monkeypatch: that undoes it.
        rng: decides.
        likely: how likely each death is.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rng: random.Random, likely: float) -> None:
        self._monkeypatch, self._rng, self._likely = monkeypatch, rng, likely

    def in_function(self, owner: Any, name: str) -> None:
        """Let calls of a function die before they begin, or when they are done."""
        function = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._come()
            found = function(*args, **kwargs)
            self._come()
            return found

        self._monkeypatch.setattr(owner, name, call)

    def in_writes(self) -> None:
        """Let everything die that writes a catalog or a table."""
        for owner, name in (
            (lake_catalog.LakeCatalog, "save"),
            (state_table.StateTable, "_commit"),
            (state_table.StateTable, "create"),
            (lake_catalog, "replace_file"),
            (lake_catalog, "remove_tree"),
        ):
            self.in_function(owner, name)

    def _come(self) -> None:
        if self._rng.random() < self._likely:
            raise Killed
