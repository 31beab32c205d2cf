"""A lock that allows one daemon at a time in a state directory."""

from __future__ import annotations

import os
from pathlib import Path

from replica_client.errors import ConfigError
from replica_client.storage.durable import open_locked


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
            self._descriptor = open_locked(directory / "daemon.lock", 0o600)
        except BlockingIOError:
            raise ConfigError(
                f"state directory {directory}: another daemon uses it; stop that one, or give each its "
                "own: state in [daemon]"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"state directory {directory}: {error.strerror}; make it writable for this user, or "
                "name another one: state in [daemon]"
            ) from error

    def release(self) -> None:
        """Release the directory."""
        os.close(self._descriptor)
