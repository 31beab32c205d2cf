"""The daemon: runs all routes of a configuration until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from replica_client.errors import ConfigError, ReplicaClientError
from replica_client.service import process as logs
from replica_client.service.config_file import read_config
from replica_client.service.configuration import DaemonConfig, RouteConfig, SourceTable
from replica_client.service.external_values import otlp_endpoint
from replica_client.service.observation import Observation, RouteState
from replica_client.service.order_socket import Control, Order
from replica_client.service.pages import orders_of, pages_of, status, tls_of
from replica_client.service.process import Notifier, StateLock
from replica_client.service.route import Route
from replica_client.service.source_access import SourceEnd, SourceWatch, hosts_of, selection_of
from replica_client.service.stores import Stores
from replica_client.stream.live.live_schema import list_tables
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection

if TYPE_CHECKING:
    from replica_client.service.telemetry import Telemetry
    from replica_client.stream.pages.http_server import HttpServer


_LOG = logging.getLogger("replica_client.service")


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


_KEPT = 720


class History:
    """A bounded series of samples of one route.

    Args:
        observation: of the route.
    """

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self._samples: deque[tuple[float, float, int | None, float, float]] = deque(maxlen=_KEPT)
        self._before: tuple[float, int, int] | None = None

    def sample(self, now: float, clock: float, lag_bytes: int | None) -> None:
        """Add a sample.

        Args:
            now: seconds since 1970.
            clock: monotonic seconds.
            lag_bytes: of binlog that is not committed, None when not known.
        """
        seen = self._observation
        rows, size = seen.rows_written, seen.received
        rows_rate = bytes_rate = 0.0
        if self._before is not None and clock > self._before[0]:
            seconds = clock - self._before[0]
            rows_rate = (rows - self._before[1]) / seconds
            bytes_rate = (size - self._before[2]) / seconds
        self._before = (clock, rows, size)
        lag = round(seen.lag_seconds(), 3)
        self._samples.append(
            (round(now, 1), lag, lag_bytes, round(rows_rate, 1), round(bytes_rate))
        )

    def to_json(self) -> list[tuple[float | int | None, ...]]:
        """Return ``(time, lag in seconds, lag in bytes, rows/s, bytes/s)`` for each sample."""
        return [*self._samples]


async def _give(route: Route, order: Order) -> None:
    """Give an order to one sink.

    Raises:
        ConfigError: it cannot be carried out.
    """
    match order.command:
        case "pause":
            await route.pause(order.at)
        case "resume":
            await route.resume()
        case "skip":
            await route.skip(order.transaction)
        case "set-aside":
            route.set_aside(dict.fromkeys(order.tables, "an operator set it aside"))
        case "snapshot" | "take-back":
            await route.request_snapshot(order.tables, order.where)
        case "cancel":
            await route.cancel(order.tables)
        case _:
            route.restart()


_CANCEL_SECONDS = 5.0
_BEGINNING = (RouteState.STARTING, RouteState.OPENING_SINK, RouteState.CONNECTING)
_PAGE_AFTER_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_NEEDS_RESTART = (
    *("name", "state", "listen", "hosts", "sample_seconds", "otlp", "otlp_seconds"),
    *("control_token", "tls_certificate", "tls_key"),
)


class Service:
    """A running configuration.

    Args:
        config: what to run.
        reread: reads the configuration again, for :meth:`reload`.

    Attributes:
        config: the current configuration.
        config_error: why the last reload was refused, empty when it was not.
        started: seconds since 1970.
        started_clock: the same moment on the monotonic clock.
        http: the status page's server, None without.
        control: the socket for orders.
    """

    def __init__(
        self, config: DaemonConfig, reread: Callable[[], DaemonConfig] | None = None
    ) -> None:
        self.config = config
        self.config_error = ""
        self.started = time.time()
        self.started_clock = time.monotonic()
        self.http: HttpServer | None = None
        self.control = Control(config.state, self._carry_out, lambda: status(self)["routes"])
        self._reread = reread or (lambda: read_config(config.file))
        self._stores = Stores(config)
        self._running: dict[str, tuple[Route, asyncio.Task[None]]] = {}
        self._watches: dict[str, tuple[SourceWatch, asyncio.Task[None]]] = {}
        self._histories: dict[str, History] = {}
        # Routes whose patterns were checked for matches.
        self._looked: WeakSet[Route] = WeakSet()
        self._stop = asyncio.Event()
        self._reloading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._notifier = Notifier()
        self._telemetry: Telemetry | None = None

    @property
    def routes(self) -> list[Route]:
        """All routes, in the order of the configuration."""
        order = {route.name: at for at, route in enumerate(self.config.routes)}
        running = [route for route, _ in self._running.values()]
        return sorted(running, key=lambda route: order.get(route.name, len(order)))

    def watch(self, source: str) -> SourceWatch | None:
        """Return the watch of a source's binlog end; None if the source is unknown."""
        found = self._watches.get(source)
        return None if found is None else found[0]

    def history(self, route: Route) -> History | None:
        """Return a route's samples."""
        return self._histories.get(route.name)

    def lag_bytes(self, route: Route) -> int | None:
        """Return the bytes of binlog that a route has not committed; None if unknown."""
        watch = self.watch(route.config.source.name)
        if watch is None or watch.end is None:
            return None
        seen = route.observation
        if seen.is_level:
            return 0
        return watch.end.bytes_behind(seen.committed)

    # Running.

    async def run(self) -> None:
        """Run until :meth:`stop`.

        Raises:
            ConfigError: the state directory or the address cannot be used.
        """
        lock = StateLock(self.config.state)
        try:
            if self.config.daemon.otlp:
                await self._send_telemetry()
            self._apply(self.config)
            await self.control.start()
            if self.config.daemon.listen:
                await self._serve_pages()
            self._background(self._sample())
            if self._notifier.watchdog_seconds:
                self._background(self._feed_watchdog(self._notifier.watchdog_seconds / 3))
            self._notifier.send(f"READY=1\nMAINPID={os.getpid()}")
            await self._stop.wait()
        finally:
            await self._end()
            lock.release()

    async def _serve_pages(self) -> None:
        """Start the status page after the routes have begun, even before importing its server."""
        deadline = time.monotonic() + _PAGE_AFTER_SECONDS
        while time.monotonic() < deadline and not self._stop.is_set():
            if all(route.observation.state not in _BEGINNING for route in self.routes):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        from replica_client.stream.pages.http_server import HttpServer

        daemon = self.config.daemon
        server = HttpServer(
            daemon.listen,
            pages_of(self),
            names=daemon.hosts,
            actions=orders_of(self),
            tls=await asyncio.to_thread(tls_of, self.config),
        )
        await server.start()
        # Set only now: a visible server must answer.
        self.http = server
        _LOG.info("status page: %s", server.url)

    def stop(self) -> None:
        """Request the end, after what was begun is finished."""
        self._stop.set()

    def reload(self) -> None:
        """Read the configuration again and apply it, as the order does."""
        self._background(self._order_reload())

    async def _order_reload(self) -> None:
        await self.control.perform(Order("reload"), [], "SIGHUP")

    async def _carry_out(self, order: Order, names: list[str]) -> None:
        """Carry out an order; wait for a pause to take effect, for at most ``stop_timeout``.

        Args:
            order: any but ``status``.
            names: of its sinks.

        Raises:
            ConfigError: it cannot be carried out.
        """
        if order.command == "reload":
            await self._reload()
            if self.config_error:
                raise ConfigError(self.config_error)
            return
        routes = [route for route in self.routes if route.name in names]
        for route in routes:
            await _give(route, order)
        deadline = time.monotonic() + self.config.daemon.stop_timeout
        while order.command == "pause" and not order.at and time.monotonic() < deadline:
            if all(route.observation.state is RouteState.PAUSED for route in routes):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        self._notifier.send("STOPPING=1")
        await self.control.close()
        limit = self.config.daemon.stop_timeout
        await self._finish(list(self._running), limit)
        for task in [*self._tasks, *(task for _, task in self._watches.values())]:
            task.cancel()
        await asyncio.gather(
            *self._tasks, *(task for _, task in self._watches.values()), return_exceptions=True
        )
        if self.http is not None:
            await self.http.close()
        if self._telemetry is not None:
            await self._telemetry.close()
        await asyncio.to_thread(self._stores.close)

    async def _finish(self, names: list[str], limit: float) -> None:
        """Stop routes, and cancel those that exceed the limit."""
        ending = [self._running[name] for name in names]
        for route, _ in ending:
            route.stop()
        tasks = [task for _, task in ending]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=limit)
            for route, task in ending:
                if task in late:
                    _LOG.warning(
                        "%s: not finished within %g s (stop_timeout): what is not committed will be delivered again",
                        route.name,
                        limit,
                    )
                    task.cancel()
            if late:
                await asyncio.wait(late, timeout=_CANCEL_SECONDS)
        if self._telemetry is not None:
            # Take their last values before they are removed.
            self._telemetry.look()
        for name in names:
            self._running.pop(name, None)
            self._histories.pop(name, None)

    async def _send_telemetry(self) -> None:
        """Start to send metrics and traces to the collector.

        Raises:
            ConfigError: the URL is malformed, or the extra is not installed.
        """
        endpoint = otlp_endpoint(self.config)
        # Imported on demand: it takes half a second.
        module = await asyncio.to_thread(import_module, "replica_client.service.telemetry")
        telemetry: Telemetry = module.Telemetry(self, endpoint, self.config.daemon.otlp_seconds)
        self._telemetry = telemetry
        self._background(telemetry.run())

    # Changing.

    def _apply(self, config: DaemonConfig) -> None:
        """Start the sources and routes that are not running."""
        for source in config.sources:
            if source.name not in self._watches:
                watch = SourceWatch(source.name, self._hosts(source), source.poll)
                self._watches[source.name] = (watch, asyncio.ensure_future(watch.run()))
        for route_config in config.routes:
            if route_config.name not in self._running:
                self._start(route_config)

    def _hosts(self, source: SourceTable) -> Callable[[], list[ConnectOptions]]:
        return lambda: hosts_of(source, self.config.directory)

    def _start(self, config: RouteConfig) -> None:
        route = Route(config, self.config, self._stores.store)
        self._histories[route.name] = History(route.observation)
        route.audit = self._audit
        telemetry = self._telemetry
        if telemetry is not None:
            route.observation.commit_seen = partial(telemetry.committed, route)
            route.observation.failure_seen = partial(telemetry.failed, route)
        self._running[route.name] = (route, asyncio.ensure_future(route.run()))

    def _audit(self, command: str, route: str, what: str) -> None:
        given = {"command": command, "what": what}
        self._background(self.control.record(given, [route], "the service"))

    async def _reload(self) -> None:
        async with self._reloading:
            if self._stop.is_set():
                return
            now = time.monotonic_ns() // 1000
            self._notifier.send(f"RELOADING=1\nMONOTONIC_USEC={now}")
            try:
                await self._take_over(await asyncio.to_thread(self._reread))
            except (ConfigError, OSError) as error:
                self.config_error = " ".join(str(error).split())
                _LOG.error("the new configuration is refused, the old one goes on: %s", error)
            finally:
                if not self._stop.is_set():  # nothing may follow STOPPING=1
                    self._notifier.send("READY=1")

    async def _take_over(self, new: DaemonConfig) -> None:
        old = self.config
        fixed = [
            key for key in _NEEDS_RESTART if getattr(old.daemon, key) != getattr(new.daemon, key)
        ]
        if old.store != new.store:
            fixed.append("store")
        if fixed:
            raise ConfigError(f"a change of {', '.join(fixed)} needs a restart")
        self.config, self.config_error = new, ""
        logs.set_up(new.daemon.log_level, new.daemon.log_format)
        wanted = {route.name: route for route in new.routes}
        ending = []
        for name, (route, _) in self._running.items():
            if name in wanted and route.config.runs_on_as(wanted[name]):
                route.adopt(wanted[name])
                route.try_now()
            else:
                ending.append(name)
        await self._finish(ending, new.daemon.stop_timeout)
        sources = {source.name: source for source in new.sources}
        for source in old.sources:
            if sources.get(source.name) != source:
                _, task = self._watches.pop(source.name)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._apply(new)
        _LOG.info(
            "configuration read again: %d sinks, %d of them restarted", len(wanted), len(ending)
        )

    # Watching.

    async def _sample(self) -> None:
        while True:
            now, clock = time.time(), time.monotonic()
            for route, _ in self._running.values():
                watch = self.watch(route.config.source.name)
                if watch is not None and watch.end is not None:
                    route.observation.saw_end(watch.end)
                    if route not in self._looked and has_caught_up(route.observation, watch.end):
                        self._looked.add(route)
                        hosts = self._hosts(route.config.source)
                        self._background(tell_unmatched(route, hosts))
                self._histories[route.name].sample(now, clock, self.lag_bytes(route))
                if text := route.observation.new_hanging():
                    _LOG.warning("%s: %s", route.name, text)
                    route.observation.record_error(text)
            await asyncio.sleep(self.config.daemon.sample_seconds)

    async def _feed_watchdog(self, period: float) -> None:
        while True:
            self._notifier.send("WATCHDOG=1")
            await asyncio.sleep(period)
