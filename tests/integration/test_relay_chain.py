"""A relay behind a relay, and a backup of a relay, while the relay goes over to another server."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.integration.relays import (
    RelayProcess,
    begin_replica,
    options,
    until,
    wait_until_equal,
    write_some,
)
from tests.servers.local import LocalServer, LocalServers

Fresh = Callable[[str, int], LocalServer]


@pytest.fixture
def fresh(local_servers: LocalServers) -> Iterator[Fresh]:
    made: list[LocalServer] = []

    def make(name: str, server_id: int) -> LocalServer:
        server = local_servers.fresh(name, options(name, server_id))
        made.append(server)
        return server

    yield make
    for server in made:
        local_servers.close_fresh(server)


def backup(relay: RelayProcess, directory: Path, *more: str) -> subprocess.Popen[str]:
    url = f"{relay.url}?allow_public_key_retrieval=true"
    return processes.Popen(
        [sys.executable, "-m", "replica_client", "backup", url, str(directory), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def copies_of(directory: Path) -> dict[str, bytes]:
    """Files of a backup, or of one directory of a relay, without the flag that only a file's writer sets."""
    found = {}
    for path in sorted(directory.iterdir()):
        if path.suffix[1:].isdecimal():
            data = bytearray(path.read_bytes())
            data[21:22] = bytes((data[21] & 0xFE,)) if len(data) > 21 else b""
            found[path.name] = bytes(data)
    return found


def served_by(relay: RelayProcess) -> dict[str, bytes]:
    """Files of a relay's two servers as it serves them."""
    files = relay.directory / "files"
    first, second = copies_of(files / "1"), copies_of(files / "2")
    last = max(first)
    ended = (files / "1" / "ended.json").read_text()
    first[last] = first[last][: int(ended.rpartition('"size": ')[2].rstrip("}"))]
    renamed = {name.replace(".", "-2.", 1): data for name, data in second.items()}
    return {**first, **renamed}


def wait_for_copy(directory: Path, relay: RelayProcess) -> None:
    """A backup becomes equal to what the relay serves, or what differs is named."""

    def different() -> dict[str, tuple[int, int]]:
        copy, served = copies_of(directory), served_by(relay)
        return {
            name: (len(copy.get(name, b"")), len(served.get(name, b"")))
            for name in {*copy, *served}
            if copy.get(name) != served.get(name)
        }

    deadline = time.monotonic() + 60
    while found := different():
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "name",
    [
        "mysql-9.7",
        "mariadb-11.8",
    ],
)
def test_a_chain_goes_over_to_another_server(fresh: Fresh, tmp_path: Path, name: str) -> None:
    rng = random.Random(7)
    plugin = "caching_sha2_password" if name == "mysql-9.7" else "mysql_native_password"
    source, standby = fresh(name, 11), fresh(name, 12)
    replica = fresh(name, 21)
    write_some(source, rng)
    near = RelayProcess(tmp_path / "near", [source.url(), standby.url()], plugin=plugin)
    with near:
        near.wait()
        chained = f"{near.url.rstrip('/')}/"
        far = RelayProcess(tmp_path / "far", [chained], plugin=plugin)
        text = far.config.read_text().replace(
            f":{near.port}/", f":{near.port}/?allow_public_key_retrieval=true"
        )
        far.config.write_text(text)
        with far:
            far.wait()
            running = backup(near, tmp_path / "copy")
            try:
                # A program starts slower than servers fail over: it must have begun before that.
                until(lambda: bool(list((tmp_path / "copy").glob("*.0*"))), "the copy's first file")
                begin_replica(standby, near.port)
                begin_replica(replica, far.port)
                for _ in range(3):
                    write_some(source, rng)
                wait_until_equal(source, standby, ["shop"])
                wait_until_equal(source, replica, ["shop"])
                standby.execute("STOP REPLICA" if name == "mysql-9.7" else "STOP SLAVE")
                source.kill()
                standby.execute("CREATE TABLE shop.after_failover (id INT PRIMARY KEY)")
                for _ in range(3):
                    write_some(standby, rng)
                wait_until_equal(standby, replica, ["shop"])
                near.kill()  # and it is killed, and comes back
                write_some(standby, rng)
                near.start()
                near.wait()
                write_some(standby, rng)
                wait_until_equal(standby, replica, ["shop"])
                new = fresh(name, 22)
                begin_replica(new, far.port)
                wait_until_equal(standby, new, ["shop"])
                assert running.poll() is None, running.communicate()[0]
                wait_for_copy(tmp_path / "copy", near)
                assert running.poll() is None
            finally:
                running.terminate()
                running.communicate(timeout=30)
            assert copies_of(far.directory / "files" / "1") == served_by(near)
            # From an empty directory, too.
            again = backup(near, tmp_path / "again", "--stop-at-end")
            output, _ = again.communicate(timeout=60)
            assert again.returncode == 0, output
            assert copies_of(tmp_path / "again") == served_by(near)
            names = {path.name for path in (tmp_path / "again").iterdir()}
            assert any("-2." in one for one in names), names
