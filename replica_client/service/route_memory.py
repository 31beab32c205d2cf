"""A service's memory of a sink, in its state directory: identity, first start, and last commit.

With it, a destination that lost its position is not taken for a new one. A first run begins where
the service was started, even while the destination is unavailable.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from replica_client.errors import ConfigError, PositionFormatError
from replica_client.protocol.position import Position
from replica_client.service.configuration import DaemonConfig, RouteConfig
from replica_client.service.source_access import address_of, patterns_of
from replica_client.storage.durable import replace_file
from replica_client.stream.position.stores.base import (
    Checkpoint,
    checkpoint_json,
    checkpoint_of_json,
)
from replica_client.stream.position.stores.ownership import (
    Claim,
    LostStateError,
    Owner,
    TableName,
    new_id,
)

_LOG = logging.getLogger("replica_client.service")
_VERSION: Final = 1
_SAVE_SECONDS: Final = 1.0
_INSTANCE: Final = "instance"
_INSTANCE_LOCK: Final = threading.Lock()


class RouteMemory:
    """The memory of one route; see the module.

    Args:
        config: of the service.
        route: the sink.
        read_only: write nothing, for commands that only look.

    Attributes:
        path: of the file.
        first: where the first run began; None: not known.
        committed: the last position known to be committed; None: there is none.
        oldest: commit time of the oldest uncommitted change, in seconds since 1970; 0: none was
            known.
        current_at: seconds since 1970 up to which all of the source was known to be committed; 0:
            not known.

    Raises:
        ConfigError: the file is damaged, or cannot be written.
    """

    def __init__(
        self, config: DaemonConfig, route: RouteConfig, *, read_only: bool = False
    ) -> None:
        self.path = config.state / f"{route.name}.memory.json"
        self._read_only = read_only
        self._route = route
        self._owner = self._new_owner(config, route)
        self._takes_over = ""
        self._destination = _digest({"type": route.sink.type, **route.options})
        self.first: Checkpoint | None = None
        self.committed: Position | None = None
        self.committed_at = ""
        self.oldest = self.current_at = 0.0
        self._saved_at = float("-inf")
        self._load()
        self._holder = _holder(config.state, read_only=read_only)

    @property
    def is_new(self) -> bool:
        """Whether no earlier run into this destination is known."""
        return self.first is None and self.committed is None

    @property
    def owner(self) -> Owner:
        """The identity of the writer."""
        return self._owner

    def claim(
        self,
        wants: Callable[[TableName], bool] = lambda name: True,
        fits: Callable[[TableName], bool] = lambda name: True,
    ) -> Claim:
        """Return the claim with which a sink identifies its writer.

        Args:
            wants: whether a table is wanted, by its name in the sink.
            fits: see :class:`~replica_client.stream.position.stores.ownership.Claim`.
        """
        return Claim(self._owner, self._holder, wants, self._takes_over, self._adopt, fits)

    def take_over(self, number: str) -> None:
        """Take the place of another identity at the next start."""
        self._takes_over = number
        self.committed = None
        self._save()

    def began(self, first: Checkpoint) -> None:
        """Save where the first run begins; afterwards the start survives a crash."""
        self.first = first
        self._save()

    def did_commit(self, position: Position, oldest: float, current_at: float) -> None:
        """Save a committed position; afterwards it survives a crash.

        Args:
            position: the committed position.
            oldest: see :attr:`oldest`.
            current_at: see :attr:`current_at`.
        """
        self.saw_commit(position, oldest, current_at)
        self._save()

    def saw_commit(self, position: Position, oldest: float, current_at: float) -> None:
        """Remember a committed position without writing the file."""
        self.committed, self.oldest, self.current_at = position, oldest, current_at
        self.committed_at = _now()

    def failed(self, oldest: float) -> None:
        """Save the commit time of the oldest change that could not be committed."""
        self.oldest = oldest
        if self.committed is not None:
            self._save()

    @property
    def is_due(self) -> bool:
        """Whether to write the position again: once a second, and the first ones at once.

        The first ones matter because a crash must not leave in doubt whether the destination has
        data.
        """
        return self._is_at_start or time.monotonic() - self._saved_at >= _SAVE_SECONDS

    @property
    def _is_at_start(self) -> bool:
        """Whether no position after the first one is known to be committed."""
        return self.committed is None or (
            self.first is not None and self.first.position == self.committed
        )

    def known(self) -> Checkpoint | None:
        """Return the last known position for a store that lost its own; None if there is none."""
        if self.committed is None:
            return None
        _LOG.warning(
            "%s: the position store has no position: goes on from %s, which was committed at %s",
            self._route.name,
            self.committed,
            self.committed_at,
        )
        return Checkpoint(self.committed)

    def check(self, where: str) -> None:
        """Refuse a destination without a position although one was committed there.

        Args:
            where: the destination's kind.

        Raises:
            LostStateError: the message has the known position and the remedies.
        """
        if self.committed is None or self._is_at_start:
            return  # nothing was written
        raise LostStateError(
            f"{where}: the destination has no position, though {self.committed} was committed there at "
            f"{self.committed_at}: it lost its data, or is another one. Bring it back; or go on from there: "
            f"replica-client position set CONFIG#{self._route.name} '{self.committed}'; or begin as the first time: "
            f"delete {self.path}"
        )

    def _new_owner(self, config: DaemonConfig, route: RouteConfig) -> Owner:
        tables, exclude = patterns_of(route)
        address = address_of(route.source, config.directory)
        return Owner(
            new_id(),
            config.service,
            route.source.name,
            route.sink.name,
            _now(),
            _digest([address, tables, exclude]),
            None if tables is None else tuple(tables),
            tuple(exclude),
        )

    def _adopt(self, owner: Owner) -> None:
        """Adopt the identity that the destination has for this sink."""
        if owner == self._owner and not self._takes_over:
            return
        self._owner = owner
        self._save()

    def took_over(self) -> None:
        """Record that the sink was opened as this identity, which ends a takeover."""
        if self._takes_over:
            self._takes_over = ""
            self._save()

    def _load(self) -> None:
        try:
            saved: Any = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            self._save()  # the identity must be on disk before a destination has it
            return
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"{self.path} is damaged: {error}; restore or delete it") from error
        try:
            if saved["version"] != _VERSION:
                raise ValueError(f"version {saved['version']}")
            known = Owner.from_json(saved["owner"])
            mine = self._owner
            self._owner = Owner(
                known.id,
                mine.service,
                mine.source,
                mine.sink,
                known.since,
                mine.fingerprint,
                mine.tables,
                mine.exclude,
            )
            self._takes_over = str(saved.get("takes_over", ""))
            if saved.get("destination") != self._destination:
                return  # another destination: a first run
            if (
                saved.get("first") is not None
                and saved.get("start") == self._route.source.options["start"]
            ):
                self.first = checkpoint_of_json(saved["first"])
            if saved.get("committed") is not None:
                self.committed = Position.from_json(saved["committed"])
                self.committed_at = str(saved.get("committed_at", ""))
                self.oldest = float(saved.get("oldest", 0.0))
                self.current_at = float(saved.get("current_at", 0.0))
        except (KeyError, TypeError, ValueError, PositionFormatError) as error:
            raise ConfigError(f"{self.path} is damaged: {error}; restore or delete it") from error

    def _save(self) -> None:
        if self._read_only:
            return
        self._saved_at = time.monotonic()
        first = self.first
        saved = {
            "version": _VERSION,
            "owner": self._owner.to_json(),
            "takes_over": self._takes_over,
            "destination": self._destination,
            "start": self._route.source.options["start"],
            "first": None if first is None else checkpoint_json(first.position, first.state),
            "committed": None if self.committed is None else self.committed.to_json(),
            "committed_at": self.committed_at,
            "oldest": self.oldest,
            "current_at": self.current_at,
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, json.dumps(saved, indent=1).encode())
        except OSError as error:
            raise ConfigError(
                f"{self.path}: {error.strerror}; make the state directory writable, with room"
            ) from error


def _holder(state: Path, *, read_only: bool) -> str:
    """Return a name of this state directory that is unique among all machines."""
    path = state / _INSTANCE
    with _INSTANCE_LOCK:
        return _digest([_instance(path, read_only), os.uname().nodename, os.path.realpath(state)])


def _instance(path: Path, read_only: bool) -> str:
    """Return the random name of a state directory, created once."""
    try:
        instance = path.read_text().strip()
    except FileNotFoundError:
        instance = ""
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if not instance and not read_only:
        instance = uuid.uuid4().hex
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, f"{instance}\n".encode())
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
    return instance


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
