"""GTIDs and GTID positions of MariaDB, and ``gtid_owned`` of MySQL.

A MariaDB position is not a set of numbers but the last GTID of each replication domain
(``gtid_slave_pos``, ``@slave_connect_state``), or of each server within each domain, the most
recent one of a domain last (``gtid_binlog_state``, GTID_LIST events). Both are a
:class:`MariadbGtidSet`.

Text: GTIDs with commas between, white space around them allowed. Domain and server id have 32 bits,
the sequence number 64.

Wire form, little-endian, as in the body of a GTID_LIST event::

    4   low 28 bits: number of GTIDs; high 4 bits: flags of the event, 0 here
    each: 4  domain id, 4  server id, 8  sequence number

Spec: MariaDB ``gtid_parser_helper``, ``Gtid_list_log_event`` (log_event.h).

It is no GTID set. Each number is followed by ``#`` and the id of each thread that owns it, and the
next UUID follows the last id without a separator, as 9.7 writes it::

    7f99a819-e73f-11f1-a881-02fc00000001:5#14:4#1200000000-0000-0000-0000-000000000001:tag:9#11
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Self

from replica_client.errors import GtidFormatError, ShortBufferError
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid.mysql import GNO_MAX, GtidSet, GtidSetBuilder, parse_uuid

_GTID = re.compile(r"0*([0-9]{1,10})-0*([0-9]{1,10})-0*([0-9]{1,20})")
_COUNT_MASK = (1 << 28) - 1


@dataclass(frozen=True, slots=True)
class MariadbGtid:
    """One event group of a MariaDB server.

    Attributes:
        domain_id: replication domain; each is a stream of its own.
        server_id: the server that first wrote it.
        sequence: its number in the domain.

    Examples:
        >>> gtid = rc.MariadbGtid.parse("0-1-100")
        >>> gtid.domain_id, gtid.server_id, gtid.sequence
        (0, 1, 100)
    """

    domain_id: int
    server_id: int
    sequence: int

    def __post_init__(self) -> None:
        if not (
            0 <= self.domain_id < 1 << 32
            and 0 <= self.server_id < 1 << 32
            and 0 <= self.sequence < 1 << 64
        ):
            raise GtidFormatError(f"a number of GTID {self} is out of range")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a GTID ``domain-server-sequence``.

        Raises:
            GtidFormatError: the text is something else.
        """
        if not isinstance(text, str):
            raise GtidFormatError(f"a GTID is parsed from text, not {type(text).__name__}")
        match = _GTID.fullmatch(text.strip())
        if match is None:
            raise GtidFormatError(f"not a MariaDB GTID: {text[:80]!r}")
        return cls(int(match[1]), int(match[2]), int(match[3]))

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.sequence}"


class MariadbGtidSet:
    """The last GTIDs of each domain, immutable.

    Of each domain it keeps one GTID per server in order of arrival; the last one is the domain's
    position, whatever its sequence number. Comparison (``<=``, :meth:`contains`) is by the numbers of each
    server; where a server is not in the set, by domain: with ``gtid_strict_mode`` sequence numbers count through
    a domain whichever server writes them. Without it the order in the binlog decides, see
    :class:`MariadbSkip`. Equality is that of all GTIDs kept.

    Examples:
        >>> str(rc.MariadbGtidSet.parse("0-1-100,1-2-5"))
        '0-1-100,1-2-5'
    """

    __slots__ = ("_domains",)

    def __init__(self, gtids: Iterable[MariadbGtid] = ()) -> None:
        domains: dict[int, dict[int, int]] = {}
        for gtid in gtids:
            servers = domains.setdefault(gtid.domain_id, {})
            servers.pop(gtid.server_id, None)
            servers[gtid.server_id] = gtid.sequence
        self._domains = {domain: domains[domain] for domain in sorted(domains)}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a position; the last GTID of a domain is its most recent.

        Raises:
            GtidFormatError: the text is no list of MariaDB GTIDs, or lists a server of a domain
                twice.
        """
        if not isinstance(text, str):
            raise GtidFormatError(f"a GTID list is parsed from text, not {type(text).__name__}")
        if not text.strip():
            return cls()
        gtids = [MariadbGtid.parse(part) for part in text.split(",")]
        if len({(gtid.domain_id, gtid.server_id) for gtid in gtids}) < len(gtids):
            raise GtidFormatError(f"a domain and server twice in GTID list {text[:80]!r}")
        return cls(gtids)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a position from its wire form.

        Raises:
            GtidFormatError: it is cut short, or bytes follow it.
        """
        reader = ByteReader(data)
        try:
            count = reader.uint(4) & _COUNT_MASK
            if count * 16 != reader.remaining:
                raise GtidFormatError(f"{count} GTIDs announced in {reader.remaining} bytes")
            return cls(
                MariadbGtid(reader.uint(4), reader.uint(4), reader.uint(8)) for _ in range(count)
            )
        except ShortBufferError as error:
            raise GtidFormatError(f"truncated GTID list: {error}") from None

    def encode(self) -> bytes:
        """Return the wire form."""
        gtids = list(self)
        out = ByteWriter().uint(len(gtids), 4)
        for gtid in gtids:
            out.uint(gtid.domain_id, 4).uint(gtid.server_id, 4).uint(gtid.sequence, 8)
        return out.done()

    def __iter__(self) -> Iterator[MariadbGtid]:
        for domain, servers in self._domains.items():
            for server, sequence in servers.items():
                yield MariadbGtid(domain, server, sequence)

    def last_of(self, domain_id: int) -> MariadbGtid | None:
        """Return the position of one domain, or None when nothing is known of it."""
        servers = self._domains.get(domain_id)
        if not servers:
            return None
        server, sequence = next(reversed(servers.items()))
        return MariadbGtid(domain_id, server, sequence)

    @property
    def domains(self) -> tuple[int, ...]:
        """Domain ids, ascending."""
        return tuple(self._domains)

    def positions(self) -> tuple[MariadbGtid, ...]:
        """Return the position of each domain, as one GTID each."""
        return tuple(gtid for gtid in map(self.last_of, self._domains) if gtid is not None)

    def slave_connect_state(self) -> str:
        """Return the value for ``SET @slave_connect_state``: one GTID for each domain."""
        return ",".join(map(str, self.positions()))

    def add(self, gtid: MariadbGtid) -> Self:
        """Return this position with ``gtid`` as the new position of its domain."""
        if not isinstance(gtid, MariadbGtid):
            raise GtidFormatError(
                f"give a MariadbGtid, not {type(gtid).__name__}; MariadbGtid.parse(text) returns one"
            )
        servers = dict(self._domains.get(gtid.domain_id, {}))
        servers.pop(gtid.server_id, None)
        servers[gtid.server_id] = gtid.sequence
        new = type(self).__new__(type(self))
        if gtid.domain_id in self._domains:
            new._domains = {**self._domains, gtid.domain_id: servers}
        else:
            new._domains = dict(sorted([*self._domains.items(), (gtid.domain_id, servers)]))
        return new

    update = add

    def reached(self, domain_id: int) -> int:
        """Return the greatest sequence number known in a domain, 0 for none."""
        return max(self._domains.get(domain_id, {}).values(), default=0)

    def contains(self, gtid: MariadbGtid) -> bool:
        """Return whether the position is at or after a GTID: its server, or else its domain, has reached it."""
        servers = self._domains.get(gtid.domain_id)
        if servers is None:
            return False
        reached = servers.get(gtid.server_id)
        return gtid.sequence <= (self.reached(gtid.domain_id) if reached is None else reached)

    def lists(self, gtid: MariadbGtid) -> bool:
        """Return whether a GTID's own server is in the set and has reached its sequence."""
        return gtid.sequence <= self._domains.get(gtid.domain_id, {}).get(gtid.server_id, -1)

    def may_lack(self, gtid: MariadbGtid) -> bool:
        """Return whether a GTID's domain is not in the set, or its own server is and has not reached its sequence."""
        servers = self._domains.get(gtid.domain_id)
        return servers is None or gtid.sequence > servers.get(gtid.server_id, gtid.sequence)

    def union(self, other: MariadbGtidSet) -> Self:
        """Return the later GTID of both in each domain and server; in each domain the further one is the position."""
        if not isinstance(other, MariadbGtidSet):
            raise GtidFormatError(
                f"give a MariadbGtidSet, not {type(other).__name__}; MariadbGtidSet.parse(text) returns one"
            )
        gtids: dict[tuple[int, int], MariadbGtid] = {}
        for gtid in (*other, *self):
            key = (gtid.domain_id, gtid.server_id)
            if key not in gtids or gtids[key].sequence < gtid.sequence:
                gtids[key] = gtid
        lasts = {*self.positions(), *other.positions()}
        return type(self)(
            sorted(gtids.values(), key=lambda each: (each.domain_id, each in lasts, each.sequence))
        )

    def issubset(self, other: MariadbGtidSet) -> bool:
        """Return whether the other position has reached this one in every domain."""
        return not self.domains_beyond(other)

    def domains_beyond(self, other: MariadbGtidSet) -> tuple[int, ...]:
        """Return the domains in which this position is beyond the other one."""
        return tuple(domain for domain in self._domains if self._is_beyond(other, domain))

    def _is_beyond(self, other: MariadbGtidSet, domain: int) -> bool:
        mine, theirs = self.last_of(domain), other.last_of(domain)
        if mine is None or mine == theirs:
            return False
        if theirs is None:
            return True
        has_theirs, has_mine = self.lists(theirs), other.lists(mine)
        if has_theirs != has_mine:
            return has_theirs  # the one that has the other's last GTID is later
        return mine.sequence > other.reached(domain)

    def to_json(self) -> str:
        """Return the position as a JSON value: its text."""
        return str(self)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the position that :meth:`to_json` encoded.

        Raises:
            GtidFormatError: the value is no such text.
        """
        if not isinstance(value, str):
            raise GtidFormatError(f"a GTID list in JSON is a string, not {type(value).__name__}")
        return cls.parse(value)

    def compact(self) -> str:
        """Return the text on one line, the same as ``str()``."""
        return str(self)

    def __or__(self, other: object) -> Self:
        return self.union(other) if isinstance(other, MariadbGtidSet) else NotImplemented

    def __contains__(self, gtid: object) -> bool:
        if isinstance(gtid, str):
            gtid = MariadbGtid.parse(gtid)
        return isinstance(gtid, MariadbGtid) and self.contains(gtid)

    def __le__(self, other: object) -> bool:
        return self.issubset(other) if isinstance(other, MariadbGtidSet) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return other.issubset(self) if isinstance(other, MariadbGtidSet) else NotImplemented

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, MariadbGtidSet):
            return NotImplemented
        return self.issubset(other) and not other.issubset(self)

    def __gt__(self, other: object) -> bool:
        return other < self if isinstance(other, MariadbGtidSet) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MariadbGtidSet):
            return NotImplemented
        return list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __bool__(self) -> bool:
        return bool(self._domains)

    def __str__(self) -> str:
        return ",".join(map(str, self))

    def __repr__(self) -> str:
        return f"MariadbGtidSet.parse({str(self)!r})"


class MariadbSkip:
    """The event groups that a replica at a position has: those up to the last GTID of each domain, in binlog order.

    So does a MariaDB source decide. Sequence numbers do not matter: without ``gtid_strict_mode`` a smaller one may
    follow.

    Args:
        have: the position.
        before: the GTIDs before the first event group that is asked about; None: nothing known.
        executed: the GTIDs before the end. A domain whose last GTID is not in it is decided by sequence numbers.
    """

    def __init__(
        self,
        have: MariadbGtidSet,
        before: MariadbGtidSet | None = None,
        executed: MariadbGtidSet | None = None,
    ) -> None:
        self._have = have
        self._pending: dict[int, MariadbGtid] = {}
        self._by_number: set[int] = set()
        for gtid in have.positions():
            if executed is not None and not executed.lists(gtid):
                self._by_number.add(gtid.domain_id)
            elif before is None or not before.lists(gtid):
                self._pending[gtid.domain_id] = gtid

    @property
    def pending(self) -> tuple[MariadbGtid, ...]:
        """The last GTIDs that did not come yet."""
        return tuple(self._pending.values())

    def passes_over(self, gtid: MariadbGtid) -> bool:
        """Return whether the replica has the next event group."""
        if gtid.domain_id in self._by_number:
            return self._have.contains(gtid)
        last = self._pending.get(gtid.domain_id)
        if last is None:
            return False
        if gtid.server_id != last.server_id or gtid.sequence < last.sequence:
            return True
        del self._pending[gtid.domain_id]
        return gtid == last


_SEPARATORS = " \t\n\v\f\r,"
_UUID = re.compile(r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_OWNED = re.compile(r"(?::[a-zA-Z_][a-zA-Z0-9_]{0,31}(?=:[0-9])|:[0-9]{1,19}(?:#[0-9]+)++)++")


def parse_owned_gtids(text: str) -> GtidSet:
    """Parse the GTIDs in the text of ``gtid_owned``.

    Raises:
        GtidFormatError: it has another form; the message quotes the part at fault.
    """
    builder = GtidSetBuilder()
    parts = _UUID.split(text)
    if parts[0].strip(_SEPARATORS):
        raise GtidFormatError(f"not owned GTIDs: {text[:80]!r}")
    for uuid, owned in zip(parts[1::2], parts[2::2], strict=True):
        body = owned.rstrip(_SEPARATORS)
        if not _OWNED.fullmatch(body):
            raise GtidFormatError(f"not owned GTIDs: {(uuid + body)[:80]!r}")
        sid, tag = parse_uuid(uuid), ""
        for item in body[1:].split(":"):
            number, is_number, _ = item.partition("#")
            if not is_number:
                tag = item.lower()
            elif 1 <= int(number) <= GNO_MAX:
                builder.add_number(sid, int(number), tag)
            else:
                raise GtidFormatError(f"number out of range in owned GTIDs: {item[:60]!r}")
    return builder.snapshot()
