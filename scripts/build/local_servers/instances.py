"""Running servers: each has a directory with its data, its log and how to reach it."""

import contextlib
import dataclasses
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from local_servers import layout
from local_servers.accounts import REPLICA_PASSWORD, REPLICA_USER
from local_servers.binaries import server_command
from local_servers.faults import ServersError
from local_servers.greeting import free_port, server_version
from local_servers.processes import is_alive, started_at, terminate
from local_servers.recipes import Recipe, recipe_named
from local_servers.roots import need_root_of
from local_servers.template import copy_template, run_as

HOST = "127.0.0.1"
PORT_ATTEMPTS = 5
UNFINISHED_START_AGE = 3600.0
# The kernel takes 107 bytes; MySQL writes a lock file beside the socket.
LONGEST_SOCKET_PATH = 100


@dataclass(frozen=True, slots=True)
class Instance:
    """One server process.

    `pid_start` tells it from a later process with the same number; `owner` is the number and start
    of the process that it was started for, and with which it goes.
    """

    id: str
    name: str
    flavor: str
    version: str
    host: str
    port: int
    socket: str
    directory: str
    datadir: str
    error_log: str
    pid: int
    pid_start: str
    options: list[str]
    owner: list[str] | None
    root_user: str = "root"
    root_password: str = ""
    replica_user: str = REPLICA_USER
    replica_password: str = REPLICA_PASSWORD

    @property
    def running(self) -> bool:
        return is_alive(self.pid, self.pid_start)

    @property
    def orphaned(self) -> bool:
        """Whether the process that it was started for has gone."""
        return self.owner is not None and not is_alive(int(self.owner[0]), self.owner[1])

    @property
    def url(self) -> str:
        if not self.replica_user:
            return f"{self.host}:{self.port}"
        credentials = f"{self.replica_user}:{self.replica_password}"
        return f"{self.flavor}://{credentials}@{self.host}:{self.port}/"


def all_instances() -> list[Instance]:
    """Every instance that has a directory, running or not."""
    found = []
    for path in sorted(layout.instances_dir().glob("*/instance.json")):
        description = layout.read_json(path)
        if description is not None:
            with contextlib.suppress(TypeError):
                found.append(Instance(**description))
    return found


def new_directory(name: str, owner_pid: int | None) -> tuple[Path, list[str] | None]:
    """Make the directory of a new instance, named as the instance, and return it with the instance's owner."""
    remove_orphans()
    directory = layout.instances_dir() / f"{name}-{secrets.token_hex(4)}"
    directory.mkdir(parents=True, mode=0o700)
    owner = None if owner_pid is None else [str(owner_pid), started_at(owner_pid) or ""]
    return directory, owner


def start(recipe: Recipe, options: list[str], *, owner_pid: int | None, timeout: float) -> Instance:
    """Start a new server with a data directory of its own; return when it answers."""
    need_root_of(recipe)
    directory, owner = new_directory(recipe.name, owner_pid)
    identity = directory.name
    try:
        copy_template(recipe, directory / "data", options)
        (directory / "tmp").mkdir()
        for attempt in range(1, PORT_ATTEMPTS + 1):
            try:
                return _launch(recipe, identity, free_port(), options, owner, timeout)
            except _PortTakenError as error:
                if attempt == PORT_ATTEMPTS:
                    raise ServersError(f"{identity}: {error}") from None
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    raise AssertionError("unreachable")


def restart(instance: Instance, options: list[str] | None, *, timeout: float) -> Instance:
    """Stops an instance if it runs, and starts it on the same data and port.

    `options` replace those that it was started with.
    """
    terminate(instance.pid, instance.pid_start, timeout=timeout)
    recipe = recipe_named(instance.name)
    wanted = instance.options if options is None else options
    try:
        return _launch(recipe, instance.id, instance.port, wanted, instance.owner, timeout)
    except _PortTakenError as error:
        raise ServersError(f"{instance.id}: {error}") from None


def stop(instance: Instance) -> None:
    """Kills an instance and removes its data, which a clean shutdown would only write."""
    terminate(instance.pid, instance.pid_start, timeout=0)
    if instance.socket:
        for path in (instance.socket, f"{instance.socket}.lock"):
            with contextlib.suppress(OSError):
                Path(path).unlink()
    shutil.rmtree(instance.directory, ignore_errors=True)


def remove_orphans() -> None:
    """Stops the servers of killed test sessions, and removes what killed starts left."""
    for instance in all_instances():
        if instance.orphaned:
            stop(instance)
    for directory in layout.instances_dir().glob("*/"):
        with contextlib.suppress(FileNotFoundError):
            age = time.time() - directory.stat().st_mtime
            if age > UNFINISHED_START_AGE and not (directory / "instance.json").exists():
                shutil.rmtree(directory, ignore_errors=True)


class _PortTakenError(Exception):
    """Something else got the port between its choice and the server's start."""


def _socket_path(directory: Path) -> Path:
    path = directory / "mysqld.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    return Path(tempfile.gettempdir()) / f"{directory.name}.sock"


def _launch(
    recipe: Recipe,
    identity: str,
    port: int,
    options: list[str],
    owner: list[str] | None,
    timeout: float,
) -> Instance:
    directory = layout.instances_dir() / identity
    socket = _socket_path(directory)
    error_log = directory / "error.log"
    error_log.unlink(missing_ok=True)
    for left_over in (socket, socket.with_name(f"{socket.name}.lock")):
        left_over.unlink(missing_ok=True)
    command = [
        *server_command(recipe),
        *run_as(),
        *recipe.options,
        f"--datadir={directory / 'data'}",
        f"--tmpdir={directory / 'tmp'}",
        f"--socket={socket}",
        f"--pid-file={directory / 'mysqld.pid'}",
        f"--bind-address={HOST}",
        f"--port={port}",
        f"--server-id={port}",
        *(f"--{option.lstrip('-')}" for option in options),
    ]
    with error_log.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            start_new_session=True,
        )
    start_mark = started_at(process.pid) or ""
    try:
        version = _wait_until_up(process, identity, port, socket, error_log, timeout)
    except BaseException:
        process.kill()
        process.wait()
        raise
    instance = Instance(
        id=identity,
        name=recipe.name,
        flavor=recipe.flavor,
        version=version,
        host=HOST,
        port=port,
        socket=str(socket),
        directory=str(directory),
        datadir=str(directory / "data"),
        error_log=str(error_log),
        pid=process.pid,
        pid_start=start_mark,
        options=options,
        owner=owner,
    )
    layout.write_json(directory / "instance.json", dataclasses.asdict(instance))
    return instance


def _wait_until_up(
    process: "subprocess.Popen[bytes]",
    identity: str,
    port: int,
    socket: Path,
    error_log: Path,
    timeout: float,
) -> str:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            text = error_log.read_text(errors="replace")
            if re.search(r"Address already in use|Do you already have another", text):
                raise _PortTakenError(f"port {port} is taken by another program")
            status = process.returncode
            raise ServersError(f"{identity} ended at start with status {status}: {_reason(text)}")
        # The socket file is made after the port is bound: what answers then is this server.
        version = server_version(HOST, port, timeout=2) if socket.exists() else None
        if version is not None:
            return version
        time.sleep(0.05)
    raise ServersError(f"{identity} did not answer on port {port} within {timeout:.0f} s")


def _reason(log: str) -> str:
    lines = log.strip().splitlines()
    errors = [line for line in lines if "[ERROR]" in line]
    telling = [line for line in errors if "Aborting" not in line] or errors or lines
    return telling[0].strip() if telling else "its log is empty"
