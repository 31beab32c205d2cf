"""Patterns of ``tables`` that match nothing: most often a misspelt name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from replica_client.daemon.observation import Observation, RouteState
from replica_client.daemon.route import Route
from replica_client.daemon.source_access import selection_of
from replica_client.daemon.source_watch import SourceEnd
from replica_client.errors import ReplicaClientError
from replica_client.readers.live.live_schema import list_tables
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import SourceConnection

_LOG = logging.getLogger("replica_client.daemon")


def has_caught_up(observation: Observation, end: SourceEnd) -> bool:
    """Return whether a route has read everything that the source had at the last look."""
    stream = observation.stream
    if stream is None or observation.shown_state is not RouteState.STREAMING:
        return False
    try:
        return end.bytes_behind(stream.reached) == 0
    except ReplicaClientError:  # the stream is closed
        return False


async def tell_unmatched(route: Route, hosts: Callable[[], list[ConnectOptions]]) -> None:
    """Warn of patterns that match no table read so far and none of the source.

    Args:
        route: a route that has caught up.
        hosts: how to connect to the source.
    """
    stream = route.observation.stream
    missing = [] if stream is None else stream.unmatched_patterns
    if not missing:
        return
    selection = selection_of(route.config, mirror=False)
    try:
        async with await _connect(await asyncio.to_thread(hosts)) as connection:
            known = selection.for_server(connection.server.casefolds_names)
            for name in await list_tables(connection):
                known.wants(*name)
        shown = ", and the source shows none,"
    except ReplicaClientError as error:
        shown = ""
        _LOG.debug("%s: cannot list the source's tables: %s", route.name, error)
    there = set(selection.unmatched())
    unmatched = [pattern for pattern in missing if pattern in there]
    if unmatched:
        _LOG.warning(
            "%s: no table was read so far%s that matches tables = %s;"
            " check the spelling and the letter case",
            route.name,
            shown,
            unmatched,
        )


async def _connect(hosts: list[ConnectOptions]) -> SourceConnection:
    for host in hosts[:-1]:
        try:
            return await SourceConnection.open(host)
        except ReplicaClientError as error:
            _LOG.debug("%s", error)
    return await SourceConnection.open(hosts[-1])
