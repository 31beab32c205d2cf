"""A service in this process: the testing source, and sinks in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import replica_client
from replica_client import open_binlog
from replica_client.rows.json_values import change_to_json
from replica_client.service.config_file import read_config
from replica_client.service.service import Service
from replica_client.sinks import registry
from replica_client.testing import BinlogSource
from tests.integration.daemon_process import toml_table
from tests.unit.service.memory_sink import DISKS, Disk

DATA = Path(replica_client.__file__).parent / "testing" / "data"


@pytest.fixture
def wanted() -> list[str]:
    """The changes in the binlog that comes with the package."""
    return [
        change_to_json(change) for change in open_binlog(sorted(DATA.glob("shop-bin.*"))).changes()
    ]


@pytest.fixture
async def source() -> AsyncIterator[BinlogSource]:
    async with BinlogSource(DATA) as one:
        yield one


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Disk]]:
    """`disk(name)`: what a sink of type memory with that name keeps."""
    monkeypatch.setitem(registry._OWN, "memory", "tests.unit.service.memory_sink:make")

    def make(name: str = "one", **options: Any) -> Disk:
        DISKS[name] = Disk(**options)
        # Another disk is not one that lost what was committed there.
        for memory in tmp_path.glob(f"**/*.{name}.memory.json"):
            memory.unlink()
        return DISKS[name]

    yield make
    DISKS.clear()


@pytest.fixture
def configure(tmp_path: Path, source: BinlogSource) -> Callable[..., Path]:
    """`configure(sink, …, source={}, daemon={}, store={})`: a configuration file."""

    def write(*sinks: dict[str, Any], **tables: dict[str, Any]) -> Path:
        daemon = {"listen": "127.0.0.1:0", "sample_seconds": 0.1, "stop_timeout": 2.0}
        parts = [toml_table("[daemon]", {**daemon, **tables.get("daemon", {})})]
        if "store" in tables:
            parts.append(toml_table("[store]", tables["store"]))
        keys = {"name": "shop", "url": source.url, "start": "earliest", "poll": 0.2}
        parts.append(toml_table("[[source]]", {**keys, **tables.get("source", {})}))
        for sink in sinks or ({},):
            given = {"name": "one", "type": "memory", "batch_seconds": 0.02, "retry_seconds": 0.1}
            given |= sink
            given.setdefault("disk", given["name"])
            parts.append(toml_table("[[source.sink]]", given))
        path = tmp_path / "daemon.toml"
        path.write_text("\n".join(parts))
        return path

    return write


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Service]:
    """A service that is stopped at the end of the block."""
    service = Service(read_config(path, {}))
    task = asyncio.ensure_future(service.run())
    try:
        await until(lambda: bool(service.routes) or task.done())
        yield service
    finally:
        service.stop()
        await asyncio.wait_for(task, 30)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        await asyncio.sleep(0.01)
