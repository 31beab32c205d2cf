"""``run --check``: whether a configuration would run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from replica_client.codec.quick_dataclass import dataclass
from replica_client.daemon.configuration import DaemonConfig, RouteConfig
from replica_client.daemon.external_values import resolved
from replica_client.daemon.mirrors import check_mirror, is_mirror
from replica_client.daemon.otlp_endpoint import otlp_endpoint
from replica_client.daemon.source_access import (
    hosts_of,
    stream_options,
    transformer_of,
)
from replica_client.daemon.stores import store_options
from replica_client.errors import ReplicaClientError
from replica_client.monitoring.page import listen_address
from replica_client.sinks.protocol import ProbedSink
from replica_client.sinks.registry import make_sink
from replica_client.transport.connection import SourceConnection

_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong: where in the configuration, and what."""

    where: str
    what: str


def check(config: DaemonConfig) -> list[Fault]:
    """Everything that can be known without a connection: references, options, patterns, packages."""
    return list(_offline(config))


def _offline(config: DaemonConfig) -> Iterator[Fault]:
    if config.daemon.listen:
        try:
            listen_address(config.daemon.listen)
        except ReplicaClientError as error:
            yield Fault("daemon", str(error))
    if config.daemon.otlp:
        try:
            otlp_endpoint(config)
        except ReplicaClientError as error:
            yield Fault("daemon", str(error))
    if config.store.type == "mysql":
        try:
            store_options(config.store, config.directory)
        except ReplicaClientError as error:
            yield Fault("store", str(error))
    for source in config.sources:
        try:
            hosts_of(source, config.directory)
            transformer_of(source, config.directory)
        except ReplicaClientError as error:
            yield Fault(f"source {source.name}", str(error))
    for route in config.routes:
        try:
            sink = make_sink(route.sink.type, resolved(route.options, config.directory))
            stream_options(route, mirror=is_mirror(sink))
            check_mirror(route, sink)
        except (ReplicaClientError, OSError) as error:
            yield Fault(f"sink {route.name}", str(error))


async def _probe(config: DaemonConfig, route: RouteConfig) -> list[Fault]:
    """Whether a sink can be used now; one that cannot be asked is passed over."""
    sink = make_sink(route.sink.type, resolved(route.options, config.directory))
    try:
        if isinstance(sink, ProbedSink):
            async with asyncio.timeout(_SECONDS):
                await sink.probe()
    except (ReplicaClientError, OSError) as error:
        text = str(error) or f"no answer within {_SECONDS} s"
        return [Fault(f"sink {route.name}", text)]
    finally:
        await sink.close()
    return []


async def check_connected(config: DaemonConfig) -> list[Fault]:
    """What sources, sinks and the store say: whether each can be followed, written and read."""
    # What is not needed to run is not imported to run.
    from replica_client.doctor.diagnosis import diagnose
    from replica_client.doctor.finding import Severity

    faults = []
    for source in config.sources:
        for host in hosts_of(source, config.directory):
            try:
                findings = await diagnose(host, server_id=source.server_id)
            except ReplicaClientError as error:
                faults.append(Fault(f"source {source.name}", str(error)))
                continue
            faults += [
                Fault(f"source {source.name}", f"{finding.text}; {finding.remedy}")
                for finding in findings
                if finding.severity is Severity.PROBLEM
            ]
    for route in config.routes:
        faults += await _probe(config, route)
    if config.store.type == "mysql":
        try:
            async with asyncio.timeout(_SECONDS):
                options = store_options(config.store, config.directory)
                async with await SourceConnection.open(options):
                    pass
        except (ReplicaClientError, TimeoutError) as error:
            faults.append(Fault("store", str(error) or f"no answer within {_SECONDS} s"))
    return faults
