"""Stores whose state grows by appended records.

A value of a state that is a tuple of texts grows at its end and is shortened at its beginning; its
texts do not change. Such a value can have megabytes, of which a save adds some hundred bytes.
Stores keep a short value with the position, and write only the new texts of a long one.

The text of a checkpoint is one JSON object that ends in a line with ``}``. A save takes the place of that line, in
one write::

    ,"save":7,"position":{…},"text":"binlog.000024:1472","state":{…},"version":3,"grown":{…},"crc":"89abcdef"
    }

so that the whole stays one JSON object, in which the last ``position`` counts. ``state`` is there when it is other
than before, without the values that grow; ``grown`` says of each of these that did how many texts are gone at its
beginning, and which texts were added at its end; older releases refuse ``version`` 3. ``crc`` is the CRC-32 of
the line before it. The last save may be torn by a crash; then it does not count.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from replica_client.errors import PositionFormatError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.stream.position.stores.base import Checkpoint, decode_checkpoint, short_text

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
            raise PositionFormatError("its state is not an object")
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


END: Final = b"\n}\n"
"""The end of a checkpoint's text."""

_BEGIN: Final = b',"save":'
_CRC: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\Z')
# The first line after `{` that is not indented.
_NEXT: Final = re.compile(rb"\n(?=[^ \t\r\n])")
_VERSION: Final = 3

_Fetch = Callable[[Mapping[str, object]], tuple[str, ...]]


def append_of(
    number: int, position: Position, before: SavedState, after: SavedState
) -> bytes | None:
    """Return the line of a save after a line break, or None if the whole text must be written.

    Args:
        number: of the save, one more than that of the one before.
        position: that is saved.
        before: the state of the save before.
        after: the state that is saved.
    """
    if before.growing.keys() != after.growing.keys():
        return None
    grown: dict[str, object] = {}
    for name, texts in after.growing.items():
        old = before.growing[name]
        if old == texts:
            continue
        gone = stored_before(old, texts)
        if gone is None:
            return None
        grown[name] = [gone, texts[len(old) - gone :]]
    said: dict[str, object] = {
        "save": number,
        "position": position.to_json(),
        "text": short_text(position),
    }
    if before.short != after.short:
        said["state"] = after.short
    if grown:
        said |= {"version": _VERSION, "grown": grown}
    line = b"," + json.dumps(said, separators=(",", ":"))[1:-1].encode("ascii")
    return b'\n%s,"crc":"%08x"' % (line, zlib.crc32(line))


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state, with the values that only grow kept apart.

    Attributes:
        short: values that are saved whole.
        growing: tuples of texts.
    """

    short: Mapping[str, object]
    growing: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, state: Mapping[str, object]) -> SavedState:
        """Split a state into its parts."""
        growing: dict[str, tuple[str, ...]] = {}
        for name, value in state.items():
            if isinstance(value, tuple):
                growing[name] = value
        return cls({name: one for name, one in state.items() if name not in growing}, growing)


def decode_saves(data: bytes, fetch: _Fetch) -> Checkpoint:
    """Return the checkpoint of a text with the saves after it.

    Args:
        data: the text.
        fetch: as for :func:`~replica_client.stream.position.stores.base.decode_checkpoint`.

    Raises:
        PositionFormatError: it is damaged.
    """
    found = _NEXT.search(data)
    if found is None or data[found.end()] not in b"},\0":
        return decode_checkpoint(data, fetch)
    checkpoint = decode_checkpoint(data[: found.start()] + END, fetch)
    position, state = checkpoint.position, dict(checkpoint.state)
    for save in _saves(data, found.end()):
        try:
            position = Position.from_json(save["position"])
            if "state" in save:
                growing = {key: one for key, one in state.items() if isinstance(one, tuple)}
                state = {**growing, **save["state"]}
            for name, (gone, texts) in save.get("grown", {}).items():
                before = state[name]
                if not isinstance(before, tuple) or not 0 <= gone <= len(before):
                    raise TypeError
                state[name] = before[gone:] + tuple(texts)
        except (KeyError, TypeError, ValueError) as error:
            raise PositionFormatError(f"its save {save.get('save')!r} is not understood") from error
    return Checkpoint(position, state)


def _saves(data: bytes, begin: int) -> list[dict[str, Any]]:
    """Return the saves of a text, the oldest first.

    Raises:
        PositionFormatError: a save other than the last is damaged.
    """
    saves: list[dict[str, Any]] = []
    at, damaged = begin, -1
    for line in data[begin:].split(b"\n"):
        save = _read(line)
        if save is None and damaged < 0:
            damaged = at
        elif save is not None:
            # What is torn is the last.
            if damaged >= 0 or save["save"] != len(saves) + 1:
                raise PositionFormatError(
                    f"byte {at if damaged < 0 else damaged}: a save is damaged"
                )
            saves.append(save)
        at += len(line) + 1
    return saves


def _read(line: bytes) -> dict[str, Any] | None:
    found = _CRC.search(line)
    if found is None or not line.startswith(_BEGIN):
        return None
    if zlib.crc32(line[: found.start()]) != int(found[1], 16):
        return None
    try:
        save = json.loads(b"{" + line[1 : found.start()] + b"}")
    except (ValueError, RecursionError):
        return None
    return save if isinstance(save, dict) and isinstance(save.get("save"), int) else None
