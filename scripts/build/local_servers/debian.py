"""Debian as a source of servers: the machine's own mirror, and what apt-get installs."""

import os
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from local_servers.commands import run, search_path
from local_servers.faults import ServersError

INSTALL_TIMEOUT = 900.0

_INSTALLING = threading.Lock()


def need_root(doing: str) -> None:
    """Refuses what only root can do, with the command that does it."""
    if os.geteuid() != 0:
        again = shlex.join(sys.argv[1:] or ["prepare"])
        raise ServersError(
            f'{doing} needs root; run: sudo -E env HOME="$HOME" scripts/servers {again}'
        )


def install(packages: Iterable[str], *, doing: str) -> None:
    """Installs Debian packages, reading the package lists anew when they are missing or old."""
    names = sorted(set(packages))
    if not names:
        return
    wanted = " ".join(names)
    if shutil.which("apt-get") is None:
        raise ServersError(
            f"{doing} needs the Debian or Ubuntu packages {wanted}, and this machine has no apt-get"
        )
    need_root(f"{doing}: installing {wanted}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    lock = ("-o", "DPkg::Lock::Timeout=600")
    command = ("apt-get", *lock, "install", "-y", "-q", "--no-install-recommends", *names)
    try:
        run(command, doing=doing, timeout=INSTALL_TIMEOUT, env=quiet)
    except ServersError:
        run(("apt-get", *lock, "update", "-q"), doing=doing, timeout=INSTALL_TIMEOUT, env=quiet)
        run(command, doing=doing, timeout=INSTALL_TIMEOUT, env=quiet)


def install_programs(programs: dict[str, str], *, doing: str) -> None:
    """Installs the packages of those programs that are not on the machine (program: package)."""
    path = search_path()
    with _INSTALLING:
        missing = [
            package for program, package in programs.items() if not shutil.which(program, path=path)
        ]
        install(missing, doing=doing)


def mirror() -> str | None:
    """The Debian mirror that this machine's apt uses.

    None where apt uses none, as on Ubuntu.
    """
    if shutil.which("apt-get") is None:
        return None
    targets = run(
        (
            "apt-get",
            "indextargets",
            "--format",
            "$(ORIGIN)|$(LABEL)|$(REPO_URI)",
            "Created-By: Packages",
        ),
        doing="finding the Debian mirror of this machine",
        timeout=60,
    )
    for target in targets.splitlines():
        origin, label, uri = target.split("|", 2)
        if origin == label == "Debian":
            return uri
    return None


def default_mirror() -> str:
    """Debian's own mirror, as the package debootstrap names it: for machines that use none.

    Raises:
        ServersError: debootstrap cannot be installed, or names none.
    """
    doing = "finding a Debian mirror"
    scripts = Path("/usr/share/debootstrap/scripts")
    if not scripts.is_dir():
        install(["debootstrap"], doing=doing)
    for script in (scripts / "sid", scripts / "debian-common"):
        found = re.search(r"^default_mirror (\S+)", script.read_text(), re.MULTILINE)
        if found is not None:
            return found[1]
    raise ServersError(f"{doing}: {scripts} names none")
