"""A PAM service that knows one password, for MariaDB's PAM plugin; it needs root for a moment."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVICES = Path("/etc/pam.d")

_CHECK = """#!/bin/sh
[ "$(tr -d '\\000')" = '{password}' ]
"""


def why_no_pam(plugin_directory: Path) -> str | None:
    """Why there can be no such service here; None: there can."""
    if os.geteuid() != 0 or not SERVICES.is_dir():
        return f"only root can put a PAM service into {SERVICES}"
    if not (plugin_directory / "auth_pam_v1.so").exists():
        return f"no auth_pam_v1 plugin in {plugin_directory}"
    return None


@contextmanager
def pam_service(root: Path, directory: Path, password: str) -> Iterator[str]:
    """The name of a service that asks for this password; it is gone afterwards.

    Args:
        root: of the server; its own PAM modules fit its libraries.
        directory: for the script that checks.
        password: the right one.
    """
    check = directory / "check-password"
    check.write_text(_CHECK.format(password=password))
    check.chmod(0o755)
    modules = next(root.glob("usr/lib/*/security"))
    service = f"replica-client-test-{uuid.uuid4().hex[:8]}"
    path = SERVICES / service
    path.write_text(
        f"auth required {modules}/pam_exec.so quiet expose_authtok {check}\n"
        f"account required {modules}/pam_permit.so\n"
    )
    try:
        yield service
    finally:
        path.unlink()
