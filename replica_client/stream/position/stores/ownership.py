"""Owners of a destination: the identity of a writer, and its lease.

A service makes an identity at its first start and keeps it in the state directory. A destination
keeps the identity with the data and with the position. A writer does not write a table, topic or
stream of another identity.

A lease lets one process at a time write as an identity. It has an epoch, which grows with each
process that takes the lease. The holder writes a beat each second; a process that sees no new beat
for :data:`EXPIRES_SECONDS` takes the lease over. The epoch is compared in the transaction of the
data: a process that lost the lease, for example because it was frozen, cannot commit.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final, Protocol, Self, runtime_checkable

from replica_client.errors import SinkError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.stream.position.stores.growing import GrowingKeys

TableName = tuple[str, str]

EXPIRES_SECONDS: Final = 5.0
"""Seconds without a new beat after which another process takes a lease over."""
BEAT_SECONDS: Final = 1.0
OWNER, LEASE, BEAT = "owner/", "lease/", "beat/"
"""The prefix of record names; the identity follows."""
OWNED_BY: Final = "owner"
"""Member of a definition's JSON: the identity that writes the table."""

POSITION: Final = "position"

_LOG = logging.getLogger("replica_client.stream")


class StandbyError(SinkError):
    """Another process holds the lease: this one waits."""

    def __init__(self, text: str) -> None:
        super().__init__(text, retriable=True)


class ForeignOwnerError(SinkError):
    """Raised when another identity owns the data that this sink would write."""


class LostStateError(SinkError):
    """A destination does not have the position that was committed there."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The identity of a writer.

    Attributes:
        id: a UUID, as hexadecimal digits.
        service: name of the service.
        source: name of its source.
        sink: name of its sink.
        since: when it wrote first, as text.
        fingerprint: digest of the source's address and of the wanted tables: processes of one configuration have
            the same.
        tables: patterns of wanted tables; None: all.
        exclude: patterns of unwanted tables.
    """

    id: str
    service: str
    source: str
    sink: str
    since: str
    fingerprint: str = ""
    tables: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"sink `{self.sink}` of service `{self.service}` (source `{self.source}`)"

    def to_json(self) -> dict[str, Any]:
        """Return the identity as a JSON object."""
        return {
            "id": self.id,
            "service": self.service,
            "source": self.source,
            "sink": self.sink,
            "since": self.since,
            "fingerprint": self.fingerprint,
            "tables": None if self.tables is None else list(self.tables),
            "exclude": list(self.exclude),
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the identity of a JSON object.

        Raises:
            ValueError: it is none.
        """
        try:
            tables = value.get("tables")
            return cls(
                str(value["id"]),
                str(value["service"]),
                str(value["source"]),
                str(value["sink"]),
                str(value["since"]),
                str(value.get("fingerprint", "")),
                None if tables is None else tuple(map(str, tables)),
                tuple(map(str, value.get("exclude", ()))),
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"no owner: {error}") from None

    def is_alike(self, other: Owner) -> bool:
        """Return whether two processes of one configuration have these identities."""
        return (self.service, self.source, self.sink, self.fingerprint) == (
            other.service,
            other.source,
            other.sink,
            other.fingerprint,
        )

    def meets(self, other: Owner) -> bool:
        """Return whether a table can be wanted by both."""
        return selections_meet(self.tables, self.exclude, other.tables, other.exclude)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one process to write as an identity.

    Attributes:
        epoch: grows with each process that takes it.
        holder: the process's state directory; empty when it was given back.
        session: of the destination's server, which is ended when the lease is taken over.
        where: machine and process, for messages.
    """

    epoch: int
    holder: str
    session: str = ""
    where: str = ""

    def to_text(self) -> str:
        """Return the lease as JSON text; equal leases have equal texts."""
        return json.dumps([self.epoch, self.holder, self.session, self.where])

    @classmethod
    def from_text(cls, text: str | None) -> Lease | None:
        """Return the lease of a text; None where there is none.

        Raises:
            ValueError: it is no lease.
        """
        if not text:
            return None
        try:
            epoch, holder, session, where = json.loads(text)
            return cls(int(epoch), str(holder), str(session), str(where))
        except (TypeError, ValueError) as error:
            raise ValueError(f"no lease: {error}") from None


def _nothing(owner: Owner) -> None:
    del owner


def _any(name: TableName) -> bool:
    del name
    return True


@dataclass(slots=True)
class Claim:
    """The writer of a sink and its tables, given to the sink before it is opened.

    Attributes:
        owner: the identity; replaced where the destination knows this writer by another one.
        holder: of leases: the state directory of this process.
        wants: whether a table is wanted.
        fits: whether a table that an older release left without an owner can be this writer's.
        takes_over: an identity that this one replaces, by an operator's decision; empty: none.
        adopted: is called with the identity that the destination has.
    """

    owner: Owner
    holder: str
    wants: Callable[[TableName], bool] = _any
    takes_over: str = ""
    adopted: Callable[[Owner], None] = _nothing
    fits: Callable[[TableName], bool] = _any
    _seen: dict[Lease, tuple[str, float]] = field(default_factory=dict, init=False)

    def resolve(self, owners: Iterable[Owner]) -> Owner:
        """Return the identity to write as, of those that a destination has; a new one's where it has none that fits."""
        known = {one.id: one for one in owners}
        mine = self.owner
        if mine.id not in known:
            alike = [one for one in known.values() if one.is_alike(mine)]
            if alike and not self.takes_over:
                mine = replace(mine, id=alike[0].id)
        found = known.get(mine.id) or known.get(self.takes_over)
        if found is not None:
            mine = replace(mine, since=found.since)
        self.owner = mine
        self.adopted(mine)
        return mine

    def take(self, lease: Lease | None, beat: str, session: str = "") -> Lease:
        """Return the lease to write in the place of another one.

        Args:
            lease: the one that there is.
            beat: the last beat of its holder.
            session: of this process with the destination's server.

        Raises:
            StandbyError: another process holds it.
        """
        if lease is not None and lease.holder not in ("", self.holder):
            now = time.monotonic()
            last, since = self._seen.get(lease, ("", now))
            if beat != last or lease not in self._seen:
                since = now
                self._seen[lease] = beat, now
            if now - since < EXPIRES_SECONDS:
                raise StandbyError(
                    f"standby: {self.owner} runs on {lease.where or 'another machine'} (epoch {lease.epoch}); this "
                    "process takes over when that one ends"
                )
            _LOG.warning("takes over from %s (epoch %d), which is gone", lease.where, lease.epoch)
            del self._seen[lease]
        return Lease(1 if lease is None else lease.epoch + 1, self.holder, session, here())

    def check_tables(self, foreign: Mapping[TableName, Owner]) -> None:
        """Refuse to write tables of other owners.

        Raises:
            ForeignOwnerError: one of them is wanted; names it and its owner.
        """
        for name, other in sorted(foreign.items()):
            if self.wants(name):
                raise self.foreign(".".join(name), other)

    def check_owners(self, owners: Iterable[Owner], what: str) -> None:
        """Refuse tables that another owner wants, too, in a destination that keeps no list of tables.

        Raises:
            ForeignOwnerError: they meet; names the other.
        """
        for other in owners:
            if other.id not in (self.owner.id, self.takes_over) and self.owner.meets(other):
                tables = "all tables" if other.tables is None else ", ".join(other.tables)
                raise self.foreign(f"{what} ({tables})", other)

    def foreign(self, what: str, other: Owner) -> ForeignOwnerError:
        """Return the error for a destination that another owner writes."""
        return ForeignOwnerError(
            f"{what} is written by {other} since {other.since}; leave it out of tables, write to another place, or "
            f"take over from it: replica-client position take-over CONFIG --sink {self.owner.source}.{self.owner.sink}"
        )


def owners_of(records: Mapping[str, str]) -> list[Owner]:
    """Return the identities that records of a destination name.

    Raises:
        ValueError: one is damaged.
    """
    return [
        Owner.from_json(json.loads(text))
        for name, text in records.items()
        if name.startswith(OWNER)
    ]


def unknown_owner(number: str) -> Owner:
    """Return the owner of a table that no record names."""
    return Owner(number, number or "of an older release", "?", "?", "an unknown time")


def is_checkpoint(name: str) -> bool:
    """Return whether a record belongs to a position."""
    return name in (POSITION, GrowingKeys.KEY) or name.startswith(GrowingKeys.PREFIX)


@runtime_checkable
class OwnedSink(Protocol):
    """A sink that keeps the identity of its writer in the destination."""

    def claim(self, claim: Claim) -> None:
        """Take the identity to write as; called before the sink is opened."""
        ...


def fenced(where: str) -> StandbyError:
    """Return the error of a process that another one took the lease from."""
    return StandbyError(f"{where}: another process took over; this one waits as a standby")


def here() -> str:
    """Return the machine and process, for messages."""
    return f"{os.uname().nodename} (process {os.getpid()})"


def new_id() -> str:
    """Return a new identity."""
    return secrets.token_hex(16)


class Heart:
    """Writes beats in a thread of its own.

    Args:
        connect: opens what beats are written to; gives the function that writes one, and is closed at the end.
    """

    def __init__(
        self, connect: Callable[[], contextlib.AbstractContextManager[Callable[[str], None]]]
    ) -> None:
        self._connect = connect
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop; a beat that is being written is not waited for long."""
        self._over.set()
        self._thread.join(BEAT_SECONDS)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with self._connect() as beat:
                    for text in _beats():
                        beat(text)
                        if self._over.wait(BEAT_SECONDS):
                            return
            except Exception as error:  # noqa: BLE001
                # The sink says what is wrong with its destination; the lease is not renewed meanwhile.
                _LOG.debug("no beat is written: %s", error)
                self._over.wait(BEAT_SECONDS)


def _beats() -> Iterator[str]:
    while True:
        yield secrets.token_hex(8)


def selections_meet(
    one: Iterable[str] | None,
    one_exclude: Iterable[str],
    other: Iterable[str] | None,
    other_exclude: Iterable[str],
) -> bool:
    """Return whether a table can be in two selections."""
    ours = ("*.*",) if one is None else tuple(one)
    theirs = ("*.*",) if other is None else tuple(other)
    excluded = (*one_exclude, *other_exclude)
    return any(
        _globs_meet(first, second)
        and not any(_covers(pattern, first, second) for pattern in excluded)
        for first in ours
        for second in theirs
    )


def _covers(pattern: str, first: str, second: str) -> bool:
    """Return whether a pattern matches whatever one of two others matches: as text, its stars match theirs."""
    return _matches(pattern, first) or _matches(pattern, second)


def _matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a text, in which ``*`` and ``?`` are characters."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_matches(pattern[1:], text[at:]) for at in range(len(text) + 1))
    if not text or (pattern[0] == "?" and text[0] == "*"):
        return False
    return pattern[0] in ("?", text[0]) and _matches(pattern[1:], text[1:])


def _globs_meet(one: str, other: str) -> bool:
    """Return whether a text matches two patterns of ``*`` and ``?``."""
    reached: set[tuple[int, int]] = set()
    left = [(0, 0)]
    while left:
        at = left.pop()
        if at in reached:
            continue
        reached.add(at)
        first, second = one[at[0] : at[0] + 1], other[at[1] : at[1] + 1]
        if not first and not second:
            return True
        if first == "*":
            left.append((at[0] + 1, at[1]))
        if second == "*":
            left.append((at[0], at[1] + 1))
        if first and second and (first in "*?" or second in "*?" or first == second):
            left.append((at[0] + (first != "*"), at[1] + (second != "*")))
    return False
