"""Facts that are computed once per row decoder and dropped with it.

A decoder lives as long as its table is not altered: after each ALTER there is a new one. A cached
fact must not keep its decoder alive, or a table that is altered every few seconds fills the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder

_Known = TypeVar("_Known")


class ByDecoder(Generic[_Known]):
    """A cache with one entry per row decoder.

    Args:
        make: computes the entry, which must not refer to the decoder.
    """

    def __init__(self, make: Callable[[RowsOfEvent], _Known]) -> None:
        self._make = make
        # Keys are ids, which are faster than references; an entry is dropped before its id is
        # reused.
        self._known: dict[int, tuple[ref[RowImageDecoder], _Known]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, rows: RowsOfEvent) -> _Known:
        """Return the entry for the decoder of these rows."""
        found = self._known.get(id(rows.decoder))
        return self._new(rows) if found is None else found[1]

    def _new(self, rows: RowsOfEvent) -> _Known:
        known, key = self._known, id(rows.decoder)

        def forget(_: object) -> None:
            known.pop(key, None)

        made = self._make(rows)
        known[key] = ref(rows.decoder, forget), made
        return made
