"""Position stores: the interface, the stored document, and a store in memory.

One JSON object::

    {"format": "replica-client-position", "version": 1,
     "position": {…}, "text": "binlog.000024:1472", "state": {…}, "growing": ["schema_history"],
     "stored": {"schema_history": {…}}}

``position`` is :meth:`Position.to_json`; ``text`` is there for people and not read. ``growing`` names values of
the state that are tuples; ``stored`` says where one of them is that does not stand in the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Protocol, runtime_checkable

from replica_client.errors import PositionFormatError, PositionStoreError
from replica_client.options import checked_types
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A position, with the state that is saved in the same step.

    Attributes:
        position: where to resume.
        state: JSON values by name, such as the schema history; the store does not look into them. A value that
            is a tuple of texts grows: a later state has the same texts, less some at the beginning, and new
            texts at the end. A store may write only the new texts, or store the value as a list.
    """

    position: Position
    state: Mapping[str, object] = field(default_factory=dict)


class PositionStore(Protocol):
    """Keeps one checkpoint; a saved one replaces the one before, wholly or not at all.

    All methods raise :class:`~replica_client.errors.PositionStoreError`, which says where and what
    to do.
    """

    def load(self) -> Position | None:
        """Return the saved position, or None when there is none yet."""
        ...

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is none yet."""
        ...

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state; when this returns, both survive a crash."""
        ...


class StoreInUseError(PositionStoreError):
    """Another stream or process has the store."""


@runtime_checkable
class HeldStore(Protocol):
    """A store that one process at a time may use."""

    def hold(self) -> None:
        """Keep other processes from it.

        Raises:
            PositionStoreError: another process has it.
        """
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


@runtime_checkable
class LeasedStore(Protocol):
    """A store whose position is written by the holder of a lease."""

    def check_lease(self) -> None:
        """Check that this process may save.

        Raises:
            SinkError: another process took the lease over.
        """
        ...

    def release(self) -> None:
        """Give the lease back."""
        ...


_FORMAT: Final = "replica-client-position"
_VERSION: Final = 1
_VERSION_STORED: Final = 2
"""A part of the state stands elsewhere: releases that do not know that must not take it for all."""


def encode_checkpoint(
    position: Position,
    state: Mapping[str, object],
    stored: Mapping[str, Mapping[str, object]] | None = None,
) -> bytes:
    """Encode a checkpoint as ASCII text with a line break; the arguments are those of :func:`checkpoint_json`."""
    document = checkpoint_json(position, state, stored)
    return json.dumps(document, indent=1).encode("ascii") + b"\n"


def checkpoint_json(
    position: Position,
    state: Mapping[str, object],
    stored: Mapping[str, Mapping[str, object]] | None = None,
) -> dict[str, object]:
    """Return a checkpoint as JSON.

    Args:
        position: the position.
        state: its state, without the values that are stored elsewhere.
        stored: by name, where a long value of the state is stored.
    """
    document: dict[str, object] = {
        "format": _FORMAT,
        "version": _VERSION if not stored else _VERSION_STORED,
        "position": position.to_json(),
        "text": short_text(position),
        "state": dict(state),
    }
    growing = [name for name, value in state.items() if isinstance(value, tuple)]
    if growing:
        document["growing"] = growing
    if stored:
        document["stored"] = stored
    return document


def short_text(position: Position) -> str:
    """Return a position as text for people; a long text is cut."""
    text = str(position)
    return text if len(text) < 1000 else text[:1000] + "…"


def decode_checkpoint(
    data: bytes | str, fetch: Callable[[Mapping[str, object]], tuple[str, ...]] | None = None
) -> Checkpoint:
    """Decode the text of a checkpoint; see :func:`checkpoint_of_json`.

    Raises:
        PositionFormatError: the text is no checkpoint.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        what = "it is empty" if not data.strip() else f"it is not JSON ({error})"
        raise PositionFormatError(what) from error
    return checkpoint_of_json(document, fetch)


def checkpoint_of_json(
    document: object, fetch: Callable[[Mapping[str, object]], tuple[str, ...]] | None = None
) -> Checkpoint:
    """Return the checkpoint that :func:`checkpoint_json` encoded.

    Args:
        document: its JSON.
        fetch: returns the texts that are stored elsewhere, given their place.

    Raises:
        PositionFormatError: the document is no checkpoint.
    """
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise PositionFormatError("it is JSON, but no position file")
    if document.get("version") not in (_VERSION, _VERSION_STORED):
        raise PositionFormatError(
            f"it has version {document.get('version')!r}, this release reads {_VERSION_STORED}"
        )
    state = document.get("state", {})
    if not isinstance(state, dict):
        raise PositionFormatError("its state is not an object")
    position = Position.from_json(document.get("position"))
    growing, stored = document.get("growing", []), document.get("stored", {})
    if not isinstance(growing, list) or not isinstance(stored, dict):
        raise PositionFormatError("what it says about its state is damaged")
    for name in growing:
        if isinstance(name, str) and isinstance(state.get(name), list):
            state[name] = tuple(state[name])
    for name, where in stored.items():
        if fetch is None or not isinstance(where, dict):
            raise PositionFormatError("what it says about its state is damaged")
        state[name] = fetch(where)
    return Checkpoint(position, state)


class MemoryPositionStore:
    """Keeps a checkpoint as long as the object lives.

    Examples:
        >>> store = rc.MemoryPositionStore()
        >>> store.save(rc.Position("binlog.000024", 1472))
        >>> str(store.load())
        'binlog.000024:1472'
    """

    @checked_types
    def __init__(self, position: Position | None = None) -> None:
        self._checkpoint = None if position is None else Checkpoint(position)

    def load(self) -> Position | None:
        """Return the saved position, or None when there is none yet."""
        return None if self._checkpoint is None else self._checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is none yet."""
        return self._checkpoint

    @checked_types
    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state."""
        self._checkpoint = Checkpoint(position, dict(state or {}))
