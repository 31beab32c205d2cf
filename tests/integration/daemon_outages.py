"""The servers of two sinks are away for a while, under a workload: what the daemon shows, and what comes of it.

Used by scripts/proofs/daemon_outage (minutes) and by test_daemon_failures.py (seconds).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.daemon_kills import DATABASE, KillWorkload, ProvedSink, prepare
from tests.integration.daemon_process import DaemonProcess
from tests.integration.daemon_soak import resident_mib
from tests.servers.local import LocalServer


def outage(
    source: LocalServer,
    directory: Path,
    sinks: list[ProvedSink],
    *,
    seconds: float,
    seed: int,
    retry_seconds: float = 30.0,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Kill the servers of the sinks that have one, and start them again after some time.

    Args:
        source: without tables.
        directory: of the daemon and the sinks.
        sinks: those with a server go away, the others must go on.
        seconds: how long.
        seed: of the workload.
        retry_seconds: the longest wait between two tries.
        say: takes a line about what was seen.

    Raises:
        AssertionError: the daemon did not say what is wrong, did not go on by itself, or lost a change.
    """
    away = [sink for sink in sinks if sink.server is not None]
    up = [sink for sink in sinks if sink.server is None]
    daemon = DaemonProcess(
        directory,
        {
            "url": source.url(),
            "tables": [f"{DATABASE}.*"],
            "start": f"{source.binlog_files()[0]}:4",
        },
        [{"name": sink.name, "retry_seconds": retry_seconds, **sink.options} for sink in sinks],
    )
    prepare(source)
    workload = KillWorkload(source, seed, pause=0.02)
    with daemon:
        daemon.until_level()
        workload.start()
        daemon.until(lambda one: all(route["rows"] for route in one.status()["routes"]))
        assert daemon.process is not None
        before = resident_mib(daemon.process.pid)
        for sink in away:
            assert sink.server is not None
            sink.server.kill()
        begun = time.monotonic()
        names = [sink.name for sink in away]
        daemon.until(lambda one: all(one.route(name)["state"] == "retrying" for name in names))
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        for sink in away:
            _is_away(daemon, sink, seconds, say)
        for sink in up:
            _goes_on(daemon, source, sink, seconds, say)
        code, body = daemon.get("/readyz")
        assert code == 503
        assert sorted(json.loads(body)["waiting"]) == sorted(f"source.{one.name}" for one in away)
        say(f"{resident_mib(daemon.process.pid) - before:+.1f} MiB of memory while they were away")
        begun = time.monotonic()
        for sink in away:
            assert sink.server is not None
            sink.server.restart()
        started = time.monotonic() - begun
        streaming = daemon.until(
            lambda one: all(route["state"] == "streaming" for route in one.status()["routes"]),
            retry_seconds + 60,
        )
        workload.halt.set()
        workload.join(60)
        assert workload.error is None, workload.error
        level = daemon.until_level(300)
        say(
            f"servers up after {started:.1f} s; all streaming {streaming:.1f} s after that, level "
            f"{level:.1f} s after the workload's end"
        )
        assert daemon.get("/readyz")[0] == 200
        assert all(daemon.metric("replica_client_up", sink=sink.name) == 1 for sink in sinks)
        assert daemon.stop() == 0
    for sink in sinks:
        compared = sink.compare(source)
        say(
            f"{sink.name}: {workload.transactions} transactions, {compared.rows} rows or lines, "
            f"{compared.repeated} repeated, 0 lost"
        )


def _goes_on(
    daemon: DaemonProcess,
    source: LocalServer,
    sink: ProvedSink,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """A sink that is up is not held back: what the source has now it commits while the others are away.

    Its lag is waited for, as a disk that others write to makes a commit take seconds: a sink that
    were held back would have a lag that only grows.
    """
    end = source.binlog_position()
    waited = daemon.until(lambda one: _has(one.route(sink.name), end))
    waited += daemon.until(lambda one: one.route(sink.name)["lag_seconds"] < max(2, seconds / 2))
    say(f"{sink.name} had all that was there, and little lag, after {waited:.1f} s")
    assert daemon.route(sink.name)["state"] == "streaming"
    assert daemon.metric("replica_client_up", sink=sink.name) == 1


def _has(route: dict[str, Any], end: tuple[str, int]) -> bool:
    """Whether a place of the source is committed in the sink. Names of files are of one length."""
    return bool((route["file"], route["offset"]) >= end)


def _is_away(
    daemon: DaemonProcess, sink: ProvedSink, seconds: float, say: Callable[[str], None]
) -> None:
    """The status page and the metrics say that a sink's server is away, and how much waits for it."""
    route: dict[str, Any] = daemon.route(sink.name)
    labels = {"source": "source", "sink": sink.name}
    shown = {
        name: daemon.metric(f"replica_client_{name}", **labels)
        for name in ("up", "lag_seconds", "lag_bytes", "retries_total")
    }
    say(
        f"{sink.name} away for {seconds:.0f} s: {route['state']!r}, {route['error'][:120]!r}, lag "
        f"{route['lag_seconds']:.0f} s and {route['lag_bytes']} bytes, {route['retries']} tries; metrics {shown}"
    )
    # It is tried now and then: for a moment the state is that of a try.
    assert route["state"] in ("retrying", "opening sink")
    assert daemon.metric("replica_client_state", **labels, state="streaming") == 0
    assert route["errors"], "no error is shown"
    assert route["lag_seconds"] > seconds * 0.8
    assert shown["up"] == 0
    assert shown["lag_seconds"] > seconds * 0.8
    assert shown["lag_bytes"] > 0
    assert shown["retries_total"] >= 1
