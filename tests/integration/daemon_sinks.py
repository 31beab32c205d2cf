"""The sinks that the daemon's proofs run with, and how each is compared."""

from __future__ import annotations

from pathlib import Path

from replica_client import open_binlog
from replica_client.sinks.formats.native import NativeFormat
from tests.integration.daemon_kills import DATABASE, ProvedSink
from tests.integration.sink_comparison import file_lines
from tests.servers.local import LocalServer, LocalServers


def file_sink(directory: Path) -> ProvedSink:
    """JSON lines in files: each change once, in order."""

    def compare(source: LocalServer) -> str:
        paths = [source.binlog_path(name) for name in source.binlog_files()]
        wanted = NativeFormat()
        lines = iter(file_lines(directory))
        count = 0
        for transaction in open_binlog(paths, tables=f"{DATABASE}.*").transactions():
            for line in wanted.lines(transaction):
                found = next(lines, None)
                assert found == line, f"line {count + 1} is {str(found)[:200]}, not {line[:200]}"
                count += 1
        more = next(lines, None)
        assert more is None, f"a line too much: {str(more)[:200]}"
        return f"{count} lines, each of the binlog's changes once and in order"

    return ProvedSink("file", {"type": "file", "path": directory, "rotate_bytes": 1 << 20}, compare)


SINKS = ("file",)


def sinks_of(names: list[str], directory: Path, servers: LocalServers) -> list[ProvedSink]:
    """The sinks with some names, with the servers that they need."""
    made = {"file": lambda: file_sink(directory / "lines")}
    return [made[name]() for name in names]
