"""The growing part of a checkpoint's state: the stored texts and the new ones.

A value of a state that is a tuple of texts grows at its end and is shortened at its beginning; its
texts do not change. Such a value can have megabytes, of which a save adds some hundred bytes.
Stores keep a short value with the position, and write only the new texts of a long one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import PositionFormatError

INLINE_SIZE: Final = 16 << 10
"""Characters up to which texts stand with the position."""


def split_growing(state: Mapping[str, object]) -> tuple[dict[str, object], str, tuple[str, ...]]:
    """Split a state into the part to store with the position, and the name and texts of a long value.

    The name is ``""`` when no value is long enough.
    """
    for name, value in state.items():
        if isinstance(value, tuple) and sum(map(len, value)) > INLINE_SIZE:
            if all(isinstance(one, str) and one.isascii() and "\n" not in one for one in value):
                return {key: one for key, one in state.items() if key != name}, name, value
    return dict(state), "", ()


def stored_before(old: tuple[str, ...], new: tuple[str, ...]) -> int | None:
    """Return how many first texts of ``old`` are missing in ``new`` if the others begin ``new``, else None."""
    if not old or not new:
        return None
    try:
        gone = old.index(new[0])
    except ValueError:
        return None
    kept = len(old) - gone
    return gone if old[gone:] == new[:kept] else None


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The steps of a save in a store with numbered rows.

    Attributes:
        first: number of the first row that counts.
        texts: the content of the rows from ``first`` on.
        new: number of the first row that is to be written.
        gone: rows below are no longer needed; they are removed after the position is saved.
    """

    first: int
    texts: tuple[str, ...]
    new: int
    gone: int

    @property
    def rows(self) -> list[tuple[int, str]]:
        """The rows to write."""
        return list(enumerate(self.texts[self.new - self.first :], self.new))

    def to_json(self) -> dict[str, object]:
        """Return the JSON value that is saved with the position."""
        return {"first": self.first, "count": len(self.texts)}


class GrowingRows:
    """Texts in numbered rows of a database; the saved position says which of them count."""

    def __init__(self) -> None:
        self._first = 0
        self._texts: tuple[str, ...] = ()
        self._oldest = 0

    def loaded(self, first: int, texts: tuple[str, ...]) -> None:
        """Take these texts as those that the database has."""
        self._first, self._texts, self._oldest = first, texts, 0

    @property
    def numbers(self) -> range:
        """The numbers of the rows that count."""
        return range(self._first, self._first + len(self._texts))

    def plan(self, texts: tuple[str, ...]) -> RowPlan:
        """Return the rows to write so that the database has these texts."""
        gone = stored_before(self._texts, texts)
        behind = self._first + len(self._texts)
        if gone is None:
            # The stored rows count until the position is saved.
            return RowPlan(behind, texts, behind, behind)
        first = self._first + gone
        return RowPlan(first, texts, behind, first)

    def saved(self, plan: RowPlan) -> None:
        """Record that the position of a plan was saved."""
        self._first, self._texts = plan.first, plan.texts

    def wants_removal(self, plan: RowPlan) -> bool:
        """Return whether to remove the rows that no position needs; many are removed at a time."""
        count = plan.gone - self._oldest
        # Where all is new, what was there before may be what is not to be kept.
        few = plan.new > plan.first and count < max(64, len(plan.texts) // 4)
        if count <= 0 or (plan.texts and few):
            return False
        self._oldest = plan.gone
        return True


def rows_of(value: Any) -> tuple[int, int]:
    """First number and count of the rows that a saved position names.

    Raises:
        PositionFormatError: it names none.
    """
    try:
        first, count = value["first"], value["count"]
        if not (isinstance(first, int) and isinstance(count, int) and first >= 0 <= count):
            raise TypeError
    except (KeyError, TypeError):
        raise PositionFormatError("what it says about its state is damaged") from None
    return first, count


@dataclass(frozen=True, slots=True)
class KeysPlan:
    """The writes of a commit for a state.

    Attributes:
        state: the state.
        put: texts by key.
        gone: keys that are not needed any more.
        rows: the plan of :class:`GrowingRows`.
    """

    state: Mapping[str, object]
    put: Mapping[str, str]
    gone: tuple[str, ...]
    rows: RowPlan | None


class GrowingKeys:
    """A state in a table of texts by key, which is changed in the transaction that changes the position.

    ``state`` is a JSON object; in it ``$growing`` says which keys ``state-1``, ``state-2`` … are the texts of a long
    value.
    """

    KEY: Final = "state"
    PREFIX: Final = "state-"

    def __init__(self) -> None:
        self._rows = GrowingRows()
        self._state: Mapping[str, object] | None = None

    def read(self, text: str | None, parts: Mapping[str, str]) -> dict[str, object]:
        """Return the state that is stored in texts.

        Args:
            text: of the key ``state``; None where there is none.
            parts: texts of the other keys.

        Raises:
            PositionFormatError: the texts are damaged.
            ValueError: a text is not JSON.
        """
        state = json.loads(text or "{}")
        if not isinstance(state, dict):
            raise PositionFormatError("its state is no object")
        for name, where in state.pop("$growing", {}).items():
            first, count = rows_of(where)
            try:
                texts = tuple(parts[f"{self.PREFIX}{at}"] for at in range(first, first + count))
            except KeyError as error:
                raise PositionFormatError(f"{error} of its state is missing") from None
            self._rows.loaded(first, texts)
            state[name] = texts
        self._state = state
        return state

    def plan(self, state: Mapping[str, object]) -> KeysPlan:
        """Return the writes for a state; call :meth:`saved` when they are committed."""
        if state is self._state or state == self._state:
            return KeysPlan(state, {}, (), None)
        short, name, texts = split_growing(state)
        rows, before = self._rows.plan(texts), self._rows.numbers
        put = {f"{self.PREFIX}{number}": text for number, text in rows.rows}
        if name:
            short["$growing"] = {name: rows.to_json()}
        put[self.KEY] = json.dumps(short)
        gone = tuple(f"{self.PREFIX}{number}" for number in before if number < rows.gone)
        return KeysPlan(state, put, gone, rows)

    def saved(self, plan: KeysPlan) -> None:
        """Record that a plan was committed."""
        self._state = plan.state
        if plan.rows is not None:
            self._rows.saved(plan.rows)
