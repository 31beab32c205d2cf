"""The sinks that the daemon's proofs run with, and how each is compared."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.daemon_kills import DATABASE, STDOUT, ProvedSink
from tests.integration.sink_comparison import Compared, compare_sink
from tests.servers.local import LocalServer, LocalServers

_FILES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "file": lambda folder: {"type": "file", "path": folder, "rotate_bytes": 1 << 20},
    "debezium": lambda folder: {"type": "file", "path": folder, "format": "debezium"},
    "maxwell": lambda folder: {"type": "file", "path": folder, "format": "maxwell"},
    "canal": lambda folder: {"type": "file", "path": folder, "format": "canal"},
    "parquet": lambda folder: {"type": "parquet", "path": folder, "roll_rows": 5000},
    "sqlite": lambda folder: {"type": "sqlite", "path": folder.with_suffix(".db")},
}
SINKS = (*_FILES, "stdout", "mysql", "redis")


@contextmanager
def proved_sinks(
    names: list[str], directory: Path, servers: LocalServers
) -> Iterator[list[ProvedSink]]:
    """The sinks with some names, with the servers that they need, which end with the block."""
    with contextlib.ExitStack() as stack:
        yield [_sink(name, directory, servers, stack) for name in names]


def _sink(
    name: str, directory: Path, servers: LocalServers, stack: contextlib.ExitStack
) -> ProvedSink:
    if name == "mysql":
        target = servers.fresh("mysql-9.7", ["skip-log-bin"])
        return _proved(name, {"type": "mysql", "url": target.url("root")}, target)
    if name == "stdout":
        return _proved(name, {"type": "stdout"}, output=directory / STDOUT)
    if name == "redis":
        from tests.integration.redis_server import RedisServer

        class KilledRedis(RedisServer):
            def restart(self) -> None:
                self.start()

        # Not below the directory: a socket's path is short.
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        redis = KilledRedis(Path(folder))
        stack.callback(redis.stop)
        return _proved(name, {"type": "redis", "url": redis.url}, redis)
    return _proved(name, _FILES[name](directory / name))


def _proved(
    name: str, options: dict[str, Any], server: Any = None, output: Path | None = None
) -> ProvedSink:
    def compare(source: LocalServer) -> Compared:
        own = {key: value for key, value in options.items() if key != "type"}
        return compare_sink(options["type"], own, source, tables=[f"{DATABASE}.*"], output=output)

    return ProvedSink(name, options, compare, server)
