"""Incremental saves after the text of a checkpoint: each has only the changes since the last.

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

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import PositionFormatError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.document import decode_checkpoint, short_text
from replica_client.position.stores.growing import stored_before

END: Final = b"\n}\n"
"""What the text of a checkpoint ends with."""

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
        fetch: as for :func:`~replica_client.position.stores.document.decode_checkpoint`.

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
