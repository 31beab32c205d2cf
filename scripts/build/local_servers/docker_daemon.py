"""A Docker daemon started by hand, for machines without a service manager."""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from local_servers import layout
from local_servers.commands import run, search_path
from local_servers.debian import install_programs, need_root
from local_servers.faults import ServersError
from local_servers.processes import is_alive, started_at, terminate

PROGRAMS = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "iptables": "iptables",
    "docker-compose": "docker-compose",
}
START_TIMEOUT = 60.0


def _state_file() -> Path:
    return layout.cache_dir() / "dockerd.json"


def reachable() -> str | None:
    """The version of the daemon that answers; None when none does."""
    if shutil.which("docker") is None:
        return None
    try:
        command = ("docker", "version", "--format", "{{.Server.Version}}")
        return run(command, doing="asking the Docker daemon for its version", timeout=30).strip()
    except ServersError:
        return None


def start() -> str:
    """Makes sure that a daemon answers; starts one in the background if none does."""
    version = reachable()
    if version is not None:
        return f"a Docker daemon is running: {version}"
    elsewhere = os.environ.get("DOCKER_HOST")
    if elsewhere:
        raise ServersError(f"no Docker daemon answers at DOCKER_HOST={elsewhere}; start it there")
    doing = "starting a Docker daemon"
    need_root(doing)
    needed = {program: PROGRAMS[program] for program in ("dockerd", "docker", "iptables")}
    install_programs(needed, doing=doing)
    layout.cache_dir().mkdir(parents=True, exist_ok=True)
    log_path = layout.cache_dir() / "dockerd.log"
    # A killed daemon leaves its number behind, and none starts while some process has that number.
    for left_over in (Path("/var/run/docker.pid"), Path("/run/docker.pid")):
        with contextlib.suppress(OSError, ValueError):
            if "dockerd" not in Path(f"/proc/{int(left_over.read_text())}/cmdline").read_text():
                left_over.unlink()
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            ["dockerd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PATH": search_path()},
        )
    start_mark = started_at(process.pid) or ""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            last = (log_path.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
            raise ServersError(f"{doing}: dockerd ended with status {process.returncode}: {last}")
        version = reachable()
        if version is not None:
            layout.write_json(_state_file(), {"pid": process.pid, "start": start_mark})
            return f"started a Docker daemon: {version}, log {log_path}"
        time.sleep(0.3)
    terminate(process.pid, start_mark, timeout=10)
    raise ServersError(f"{doing}: no answer within {START_TIMEOUT:.0f} s; see {log_path}")


def stop() -> str:
    """Stops the daemon that `start` started, and no other."""
    state = layout.read_json(_state_file())
    if state is None or not is_alive(int(state["pid"]), str(state["start"])):
        return "no Docker daemon was started from here"
    need_root("stopping the Docker daemon")
    terminate(int(state["pid"]), str(state["start"]), timeout=60)
    _state_file().unlink(missing_ok=True)
    return "stopped the Docker daemon"
