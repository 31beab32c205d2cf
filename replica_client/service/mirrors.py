"""Rules that apply only to mirrors: sinks that hold tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from replica_client.errors import ConfigError, TransportError
from replica_client.service.configuration import Names, RouteConfig
from replica_client.sinks.protocol import (
    SERVER_IDENTITY,
    CopyingSink,
    ServerSink,
    Sink,
    SnapshotSink,
)
from replica_client.stream.position.losses import LossKind, loss_kinds
from replica_client.stream.tables.net_changes import TableName
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection

MIRRORS: Final = frozenset(("sqlite", "mysql", "postgres", "duckdb", "clickhouse"))
"""Types of sinks that hold tables."""
DIGESTS_KEY: Final = "transform_digests"
SERVERS_OWN: Final = ("mysql", "sys", "information_schema", "performance_schema")
"""System databases: mirrors leave them out unless a pattern names them."""

_UNEQUAL: Final[frozenset[LossKind]] = frozenset(
    ("statement", "undecodable", "gtid_gap", "unknown_table", "xa_prepare")
)


def is_mirror(sink: Sink) -> bool:
    """Return whether a sink holds tables, which must equal the source's."""
    return isinstance(sink, CopyingSink)


def check_mirror(route: RouteConfig, sink: Sink) -> None:
    """Refuse options that would let a mirror silently differ from its source.

    Options that only mirrors support are refused for other sinks.

    Raises:
        ConfigError: the message names the option and the remedy.
    """
    kind = route.sink.type
    if not is_mirror(sink):
        if route.sink.snapshot and not isinstance(sink, SnapshotSink):
            raise ConfigError(f"snapshot: a sink of type {kind} cannot hold a copy of tables")
        return
    lost = sorted(loss_kinds(route.source.options["record_losses"] or ()) & _UNEQUAL)
    if lost and not route.sink.snapshot:
        raise ConfigError(
            f"record_losses: after a loss ({', '.join(lost)}) a mirror lacks rows for good: set "
            "snapshot = true on this sink, so that it copies its tables again, or take the option away"
        )


async def check_target(sink: Sink, hosts: Sequence[ConnectOptions]) -> None:
    """Refuse a mirror on its own source: each commit there would be a change to follow.

    Raises:
        ConfigError: the sink writes to the server that it is fed from.
        ReplicaClientError: a server is unavailable, or refuses.
    """
    if not isinstance(sink, ServerSink):
        return
    identity = await sink.server_identity()
    for at, host in enumerate(hosts):
        try:
            async with await SourceConnection.open(host) as connection:
                found = await connection.query(SERVER_IDENTITY)
        except TransportError:
            if at == len(hosts) - 1:
                raise
            continue
        if found == identity:
            raise ConfigError(
                f"url: {host.address} is the source itself, and each commit of the mirror would be a change to follow; "
                "choose another server"
            )
        return


class TransformDigests:
    """Digests of the transforms of each mirrored table, to detect that transforms changed.

    Args:
        declared: the transforms of the source, references resolved.
        transform: the transformer built from them.
    """

    def __init__(
        self, declared: Sequence[Mapping[str, Any]], transform: Transformer | None
    ) -> None:
        self._declared, self._transform = declared, transform

    def of(self, sources: Iterable[TableName]) -> str:
        """Return the digest of the transforms of merged source tables; empty if there are none."""
        transform = self._transform
        if transform is None:
            return ""
        found = [
            [*name, [self._declared[at] for at in transform.indexes(*name)]]
            for name in sorted(sources)
            if transform.indexes(*name)
        ]
        return digest_of(found) if found else ""

    def state(self, sources: Mapping[TableName, Sequence[TableName]]) -> dict[str, str]:
        """Return the digests to save with the position: per table, and of all under ``""``."""
        tables = {".".join(name): self.of(found) for name, found in sources.items()}
        return {"": self.whole, **{name: one for name, one in tables.items() if one}}

    @property
    def whole(self) -> str:
        """A digest of all transforms."""
        return digest_of(list(self._declared)) if self._declared else ""

    def changed(
        self, saved: object, sources: Mapping[TableName, Sequence[TableName]]
    ) -> set[TableName]:
        """Return the tables whose rows were written with other transforms."""
        if not isinstance(saved, Mapping) or saved.get("", "") == self.whole:
            return set()
        return {
            name
            for name, found in sources.items()
            if saved.get(".".join(name), "") != self.of(found)
        }


def digest_of(value: object) -> str:
    """Return a short digest of a JSON value."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def without_servers_own(tables: Names | None, exclude: Names | None) -> list[str]:
    """Return the patterns of tables that a mirror leaves out."""
    wanted, unwanted = patterns(tables), patterns(exclude)
    return unwanted + [
        f"{name}.*"
        for name in SERVERS_OWN
        if not any(pattern.startswith(f"{name}.") for pattern in wanted)
    ]


def patterns(names: Names | None) -> list[str]:
    """Return configured patterns as a list."""
    if names is None:
        return []
    return [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
