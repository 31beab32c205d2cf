"""What is different for sinks that hold tables: mirrors."""

from __future__ import annotations

from typing import Final

from replica_client.daemon.configuration import Names, RouteConfig
from replica_client.errors import ConfigError
from replica_client.position.losses import LossKind, loss_kinds
from replica_client.sinks.copying_sink import CopyingSink
from replica_client.sinks.protocol import Sink
from replica_client.sinks.snapshot_sink import SnapshotSink

SERVERS_OWN: Final = ("mysql", "sys", "information_schema", "performance_schema")
"""Databases that a server has for itself: no mirror wants them, unless they are asked for by name."""

_UNEQUAL: Final[frozenset[LossKind]] = frozenset(
    ("statement", "undecodable", "gtid_gap", "unknown_table", "xa_prepare")
)


def is_mirror(sink: Sink) -> bool:
    """Whether a sink holds tables, which must equal the source's."""
    return isinstance(sink, CopyingSink)


def check_mirror(route: RouteConfig, sink: Sink) -> None:
    """Refuse what would let a mirror differ from its source unseen, and what only mirrors can do.

    Raises:
        ConfigError: says what, and what to do.
    """
    kind = route.sink.type
    if not is_mirror(sink):
        if route.sink.snapshot and not isinstance(sink, SnapshotSink):
            raise ConfigError(f"snapshot: a sink of type {kind} cannot hold a copy of tables")
        return
    lost = sorted(loss_kinds(route.source.record_losses) & _UNEQUAL)
    if lost and not route.sink.snapshot:
        raise ConfigError(
            f"record_losses: after a loss ({', '.join(lost)}) a mirror lacks rows for good: set "
            "snapshot = true on this sink, so that it copies its tables again, or take the option away"
        )


def without_servers_own(tables: Names | None, exclude: Names | None) -> list[str]:
    """Patterns of what a mirror does not want."""
    wanted, unwanted = patterns(tables), patterns(exclude)
    return unwanted + [
        f"{name}.*"
        for name in SERVERS_OWN
        if not any(pattern.startswith(f"{name}.") for pattern in wanted)
    ]


def patterns(names: Names | None) -> list[str]:
    """Patterns as they are configured, as a list."""
    if names is None:
        return []
    return [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
