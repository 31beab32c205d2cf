"""Where things are kept: everything below one directory in the user's cache."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CACHE_VARIABLE = "REPLICA_CLIENT_SERVERS_DIR"


def cache_dir() -> Path:
    """The directory of roots, templates and running instances; the environment may name another."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "replica-client" / "servers"


def server_dir(name: str) -> Path:
    """What belongs to one kind of server: its root, its manifest, its template data directory."""
    return cache_dir() / name


def root_dir(name: str) -> Path:
    """The Debian root that a server runs out of."""
    return server_dir(name) / "root"


def instances_dir() -> Path:
    """One directory per running server."""
    return cache_dir() / "instances"


def give_to_caller(name: str) -> None:
    """Lets the user who called through sudo start what root prepared in that user's cache.

    The root itself stays root's: nobody needs to write there.
    """
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() != 0 or user is None or group is None:
        return
    home = server_dir(name)
    for path in (cache_dir().parent, cache_dir(), home, *home.glob("*.json"), home / "lock"):
        if path.exists():
            os.chown(path, int(user), int(group))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock, so that two runs do not build the same thing at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, or None when there is none or it is not whole."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replaces a file at once, so that a reader never sees half of it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(value, indent=2) + "\n")
    partial.replace(path)
