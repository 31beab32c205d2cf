"""What a service remembers of a sink, in its state directory: who it is, where it began, and how far it came.

A destination that lost its position is not taken for a new one, and a first run begins where the service was started,
also while the destination is unavailable.
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

from replica_client.daemon.configuration import DaemonConfig, RouteConfig
from replica_client.daemon.source_access import address_of, patterns_of
from replica_client.errors import ConfigError, PositionFormatError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.document import checkpoint_json, checkpoint_of_json
from replica_client.position.stores.ownership import (
    Claim,
    LostStateError,
    Owner,
    TableName,
    new_id,
)
from replica_client.storage.durable import replace_file

_LOG = logging.getLogger("replica_client.daemon")
_VERSION: Final = 1
_SAVE_SECONDS: Final = 1.0
_INSTANCE: Final = "instance"
_INSTANCE_LOCK: Final = threading.Lock()


class RouteMemory:
    """See the module.

    Args:
        config: of the service.
        route: the sink.
        read_only: nothing is written: a command looks.

    Attributes:
        path: of the file.
        first: where the first run began; None: not known.
        committed: the last position that is known to be committed; None: none was.
        oldest: commit time of the oldest change that was not committed, in seconds since 1970; 0: none was known.
        current_at: seconds since 1970 up to which all of the source was known to be committed; 0: not known.

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
        """Whether nothing is known of an earlier run into this destination."""
        return self.first is None and self.committed is None

    @property
    def owner(self) -> Owner:
        """The identity."""
        return self._owner

    def claim(
        self,
        wants: Callable[[TableName], bool] = lambda name: True,
        fits: Callable[[TableName], bool] = lambda name: True,
    ) -> Claim:
        """Return what a sink is told of its writer.

        Args:
            wants: whether a table is wanted, by the name that the sink gives it.
            fits: see :class:`~replica_client.position.stores.ownership.Claim`.
        """
        return Claim(self._owner, self._holder, wants, self._takes_over, self._adopt, fits)

    def take_over(self, number: str) -> None:
        """Take the place of another identity at the next start."""
        self._takes_over = number
        self.committed = None
        self._save()

    def began(self, first: Checkpoint) -> None:
        """Keep where the first run begins; when this returns it survives a crash."""
        self.first = first
        self._save()

    def did_commit(self, position: Position, oldest: float, current_at: float) -> None:
        """Keep a position that was committed; when this returns it survives a crash.

        Args:
            position: that was committed.
            oldest: see :attr:`oldest`.
            current_at: see :attr:`current_at`.
        """
        self.saw_commit(position, oldest, current_at)
        self._save()

    def saw_commit(self, position: Position, oldest: float, current_at: float) -> None:
        """Know a position that was committed, without writing it."""
        self.committed, self.oldest, self.current_at = position, oldest, current_at
        self.committed_at = _now()

    def failed(self, oldest: float) -> None:
        """Keep since when a change waits that could not be committed."""
        self.oldest = oldest
        if self.committed is not None:
            self._save()

    @property
    def is_due(self) -> bool:
        """Whether a position is to be written again: each second, and the first ones at once.

        A crash leaves no doubt whether something was committed in the destination.
        """
        return self._is_at_start or time.monotonic() - self._saved_at >= _SAVE_SECONDS

    @property
    def _is_at_start(self) -> bool:
        """Whether no position after the first one is known to be committed."""
        return self.committed is None or (
            self.first is not None and self.first.position == self.committed
        )

    def known(self) -> Checkpoint | None:
        """Return the last known position for a store that lost it; None where there was none."""
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
        """Refuse a destination without a position where one was committed.

        Args:
            where: the destination's kind.

        Raises:
            LostStateError: says what is known, and what to do.
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
        """Take the identity that the destination has for this sink."""
        if owner == self._owner and not self._takes_over:
            return
        self._owner = owner
        self._save()

    def took_over(self) -> None:
        """The sink is open as this identity: nothing is left to take over."""
        if self._takes_over:
            self._takes_over = ""
            self._save()

    def _load(self) -> None:
        try:
            saved: Any = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            self._save()  # before a destination has the identity
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
            if saved.get("first") is not None and saved.get("start") == self._route.source.start:
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
            "start": self._route.source.start,
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
    """Return what names this state directory among those of all machines."""
    path = state / _INSTANCE
    with _INSTANCE_LOCK:
        return _digest([_instance(path, read_only), os.uname().nodename, os.path.realpath(state)])


def _instance(path: Path, read_only: bool) -> str:
    """Return the name of a state directory, by which a copy of it on another machine is another holder."""
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
