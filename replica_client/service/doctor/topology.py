"""Several servers at once: replication threads, lag, and what each server still has for replicas and positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from replica_client.errors import ReplicaClientError, ServerError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.service.doctor.source_facts import (
    Finding,
    SourceFacts,
    gather_facts,
    note,
    ok,
    problem,
    warning,
)
from replica_client.service.doctor.standing import diagnose, gone
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection

_LATE: Final = 60


@dataclass(frozen=True, slots=True)
class Member:
    """A server of a topology.

    Attributes:
        address: of the server.
        facts: what it shows.
        channels: rows of SHOW REPLICA STATUS, with the names of MySQL 8.4.
        refusal: why the channels are not known; empty: they are.
        executed: the GTIDs that it has; None: it has none.
    """

    address: str
    facts: SourceFacts
    channels: Sequence[Mapping[str, Any]]
    refusal: str
    executed: GtidSet | MariadbGtidSet | None

    def is_source_of(self, channel: Mapping[str, Any]) -> bool:
        """Return whether a replica's channel is connected to this server, by its UUID or server id."""
        uuid = channel.get("Source_UUID")
        if uuid:
            return str(uuid) == self.facts.server.server_uuid
        return str(channel.get("Source_Server_Id")) == str(self.facts.server.server_id)


async def diagnose_topology(
    urls: Sequence[str],
    positions: Mapping[str, Position],
    *,
    server_id: int | None = None,
    tables: Sequence[str] = (),
) -> dict[str, list[Finding]]:
    """Examine several servers, each on its own and how they replicate from each other.

    Args:
        urls: of the servers.
        positions: saved positions by the name of their file.
        server_id: the one that we would use; None: a random one.
        tables: patterns of the wanted tables; none: all.

    Returns:
        the findings by the server's address; those of positions come last, by the file's name.

    Raises:
        ConfigError: a pattern is wrong, or two URLs have one address.
    """
    members: list[Member] = []
    found: dict[str, list[Finding]] = {}
    for url in urls:
        address = parse_url(url).address
        findings = found.setdefault(address, [])
        try:
            member = await _look(url, address)
            findings += await diagnose(url, server_id=server_id, tables=tables)
            members.append(member)
        except (ReplicaClientError, OSError) as error:
            findings.append(
                problem("connection", str(error), "see whether the server runs, and the account")
            )
    for member in members:
        found[member.address] += _replication(member, members)
    for name, position in positions.items():
        found[name] = list(_position(position, members))
    return found


async def _look(url: str, address: str) -> Member:
    async with await SourceConnection.open(parse_url(url)) as connection:
        server = connection.server
        is_new = not server.is_mariadb and server.version >= (8, 0, 22)
        rows: list[dict[str, Any]] = []
        refusal = ""
        words = "SHOW ALL SLAVES STATUS" if server.is_mariadb else "SHOW REPLICA STATUS"
        try:
            answer = await connection.query(
                words if is_new or server.is_mariadb else "SHOW SLAVE STATUS"
            )
            names = [_modern(name) for name in connection.columns]
            rows = [dict(zip(names, row, strict=True)) for row in answer]
        except ServerError as error:
            refusal = error.message
        variable = "@@global.gtid_current_pos" if server.is_mariadb else "@@global.gtid_executed"
        text = ""
        try:
            [[value]] = await connection.query(f"SELECT {variable}", columns=1, rows=1)
            text = str(value or "").replace("\n", "")
        except ServerError:
            pass  # GTIDs are off, or the account may not ask
        facts = await gather_facts(connection)
    executed = MariadbGtidSet.parse(text) if server.is_mariadb else GtidSet.parse(text)
    return Member(address, facts, rows, refusal, executed or None)


def _modern(name: str) -> str:
    return name.replace("Master", "Source").replace("Slave", "Replica")


def _replication(member: Member, members: Sequence[Member]) -> Iterator[Finding]:
    if member.refusal:
        yield note(
            "replication",
            f"whether it is a replica is not known: {member.refusal}",
            "GRANT REPLICATION CLIENT (MariaDB: REPLICA MONITOR)",
        )
        return
    for channel in member.channels:
        yield from _threads(channel)
        sources = [one for one in members if one.is_source_of(channel)]
        for source in sources:
            yield from _source_has(member, channel, source)
        for other in members:
            if other is not member and other not in sources:
                lost = _missing(member, other)
                if lost:
                    yield warning(
                        "failover",
                        f"{other.address} cannot become its source: {lost}",
                        "keep binlog files longer",
                    )
    if not member.channels:
        replicas = [one.address for one in members if any(map(member.is_source_of, one.channels))]
        yield ok(
            "replication", f"no replica; source of {', '.join(replicas) or 'none of these servers'}"
        )


def _threads(channel: Mapping[str, Any]) -> Iterator[Finding]:
    name = str(channel.get("Channel_Name") or channel.get("Connection_name") or "")
    of = f"{channel['Source_Host']}:{channel['Source_Port']}" + (
        f", channel {name}" if name else ""
    )
    stopped = []
    for kind, what in (("IO", "receiver"), ("SQL", "applier")):
        state, error = (
            str(channel[f"Replica_{kind}_Running"]),
            str(channel[f"Last_{kind}_Error"] or ""),
        )
        if state != "Yes":
            stopped.append(f"the {what} is {'connecting' if state == 'Connecting' else 'stopped'}")
        if error:
            stopped.append(f"{what}: {error}")
    if stopped:
        yield problem(
            "threads",
            f"replica of {of}: {'; '.join(stopped)}",
            "correct the cause, then START REPLICA",
        )
        return
    yield ok("threads", f"replica of {of}: both threads run")
    behind = channel["Seconds_Behind_Source"]
    if behind is None:
        yield warning("lag", "the server does not state it", "look again in a minute")
    elif int(behind) > _LATE:
        yield warning("lag", f"{behind} s", "see what the applier does: SHOW PROCESSLIST")
    else:
        yield ok("lag", f"{behind} s")


def _source_has(member: Member, channel: Mapping[str, Any], source: Member) -> Iterator[Finding]:
    lost = _missing(member, source)
    if not lost and member.executed is None:
        file, offset = (
            str(channel["Relay_Source_Log_File"] or ""),
            int(channel["Exec_Source_Log_Pos"] or 4),
        )
        lost = gone(source.facts, Position(file, offset)) if file else ""
    if lost:
        yield problem(
            "purged",
            f"its source {source.address} no longer has what it needs: {lost}",
            "restore it from a new copy of the source",
        )
    else:
        yield ok("purged", f"its source {source.address} has what it needs")
    if isinstance(member.executed, GtidSet) and isinstance(source.executed, GtidSet):
        own = member.executed - source.executed
        if own:
            yield warning(
                "errant",
                f"it has transactions that its source {source.address} lacks: {own}",
                "find out what wrote to it; they break replication from it after a failover",
            )


def _missing(member: Member, source: Member) -> str:
    if member.executed is None:
        return ""
    return gone(source.facts, Position("", 0, gtid_set=member.executed))


def _position(position: Position, members: Sequence[Member]) -> Iterator[Finding]:
    lost = {one.address: gone(one.facts, position) for one in members}
    able = [address for address, why in lost.items() if not why]
    for address, why in lost.items():
        if not why:
            yield ok("position", f"{address} has what follows {position}")
        elif able:
            yield warning(
                "position",
                f"{address} cannot go on from {position}: {why}",
                f"use {able[0]} instead",
            )
        else:
            yield problem(
                "position",
                f"{address} cannot go on from {position}: {why}",
                "take a new snapshot, or name a server that still has it",
            )
