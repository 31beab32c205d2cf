"""Servers as local processes, started and stopped by `scripts/servers`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers.server import Address, Server

SCRIPT = Path(__file__).parents[2] / "scripts" / "servers"
NAMES = ("mysql-9.7", "mysql-5.6", "mariadb-10.11", "mariadb-11.8")
# Column names, signedness and labels in the table maps, where the server can write them.
SHARED_OPTIONS = {name: ("binlog-row-metadata=FULL",) for name in NAMES if name != "mysql-5.6"}
START_TIMEOUT = 180
COMMAND_TIMEOUT = 300
GONE_TIMEOUT = 20

# As it was: tests that have caches of their own use the machine's servers.
_ENVIRONMENT = dict(os.environ)


class ServerUnavailableError(Exception):
    """A server cannot be had on this machine; the text is one line that says why and what to do."""


def run_script(*arguments: str) -> str:
    """Runs `scripts/servers` and returns its output."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT,
        check=False,
        env=_ENVIRONMENT,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ServerUnavailableError(said[-1] if said else f"{SCRIPT.name} {arguments[0]} failed")
    return done.stdout


class LocalServer(Server):
    """A server process on loopback whose data directory and signals are the test's to use.

    Args:
        name: of its kind.
        options: of the server program.
        keep: whether it goes on when this process has gone.
    """

    def __init__(self, name: str, options: Sequence[str] = (), *, keep: bool = False) -> None:
        owner = () if keep else ("--owner-pid", str(os.getpid()))
        self._instance = self._run("start", name, *_given(options), *owner)
        super().__init__(self._address())

    @staticmethod
    def _run(*arguments: str) -> dict[str, Any]:
        output = run_script(*arguments, "--json", "--timeout", str(START_TIMEOUT))
        instance: dict[str, Any] = json.loads(output)
        return instance

    def _address(self) -> Address:
        one = self._instance
        return Address(
            name=one["name"],
            flavor=one["flavor"],
            version_text=one["version"],
            host=one["host"],
            port=one["port"],
            user=one["replica_user"],
            password=one["replica_password"],
            root_password=one["root_password"],
        )

    @property
    def pid(self) -> int:
        return int(self._instance["pid"])

    @property
    def datadir(self) -> Path:
        return Path(self._instance["datadir"])

    @property
    def socket(self) -> Path:
        return Path(self._instance["socket"])

    @property
    def error_log(self) -> Path:
        return Path(self._instance["error_log"])

    def binlog_path(self, name: str) -> Path:
        """Where a binlog file lies on disk."""
        return self.datadir / name

    def restart(self, options: Sequence[str] | None = None) -> None:
        """Shuts down (if it runs) and starts on the same data and port.

        `options` replace those that it was started with.
        """
        self.disconnect()
        self.resume()
        given = () if options is None else _given(options)
        self._instance = self._run("restart", self._instance["id"], *given)
        self.address = self._address()

    def kill(self) -> None:
        """Ends the process as a crash would (SIGKILL); `restart` brings it back."""
        self._signal(signal.SIGKILL)
        deadline = time.monotonic() + GONE_TIMEOUT
        while process_start(self.pid):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self!r} is still there {GONE_TIMEOUT} s after SIGKILL")
            time.sleep(0.02)
        self.disconnect()

    def suspend(self) -> None:
        """Freezes the process (SIGSTOP): connections stay open and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a frozen process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stops the server and removes its data."""
        self.resume()
        self.disconnect()
        run_script("stop", self._instance["id"])

    def _signal(self, number: signal.Signals) -> None:
        if process_start(self.pid) == self._instance["pid_start"]:
            os.kill(self.pid, number)


def _given(options: Sequence[str]) -> list[str]:
    return [f"--option={option.removeprefix('--')}" for option in options]


def process_start(pid: int) -> str:
    """When a living process began, in the kernel's ticks; empty when there is no such one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


class LocalServers:
    """The local servers of one test session: one shared server per name, and throwaway ones.

    Args:
        keep: whether the shared ones run on at the end of the session.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._keep = keep
        self._shared: dict[str, LocalServer | ServerUnavailableError] = {}
        self._fresh: list[LocalServer] = []

    def shared(self, name: str) -> LocalServer:
        """The session's server of that name, started when it is first asked for."""
        if name not in self._shared:
            try:
                self._shared[name] = LocalServer(
                    name, SHARED_OPTIONS.get(name, ()), keep=self._keep
                )
            except ServerUnavailableError as error:
                self._shared[name] = error
        found = self._shared[name]
        if isinstance(found, ServerUnavailableError):
            raise found
        return found

    def disconnect(self) -> None:
        """End the root sessions of the shared servers; the next statement opens a new one."""
        for server in self._shared.values():
            if isinstance(server, LocalServer):
                server.disconnect()

    def fresh(self, name: str, options: Sequence[str] = ()) -> LocalServer:
        """A new server with an empty binlog, for tests with options or that disturb it."""
        server = LocalServer(name, options)
        self._fresh.append(server)
        return server

    def close_fresh(self, server: LocalServer) -> None:
        """Stops one throwaway server; one that is stopped already stays so."""
        if server in self._fresh:
            self._fresh.remove(server)
            server.close()

    def close(self) -> None:
        """Stops all of them but those that are kept, whatever happens to some."""
        faults = []
        running = [one for one in self._shared.values() if isinstance(one, LocalServer)]
        if self._keep:
            self.disconnect()
            running = []
        for server in [*self._fresh, *running]:
            try:
                server.close()
            except Exception as error:
                faults.append(error)
        self._fresh.clear()
        self._shared.clear()
        if faults:
            raise ExceptionGroup("servers could not be stopped", faults)
