"""A lock that allows one daemon at a time in a state directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from replica_client.errors import ConfigError


class StateLock:
    """A lock of a directory for this process; the kernel releases it when the process ends.

    Args:
        directory: made when it is not there.

    Raises:
        ConfigError: another daemon has it, or it cannot be made or written.
    """

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(
                directory / "daemon.lock",
                os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
        except OSError as error:
            raise ConfigError(
                f"state directory {directory}: {error.strerror}; make it writable for this user, or "
                "name another one: state in [daemon]"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise ConfigError(
                f"state directory {directory}: another daemon uses it; stop that one, or give each its "
                "own: state in [daemon]"
            ) from None

    def release(self) -> None:
        """Release the directory."""
        os.close(self._descriptor)
