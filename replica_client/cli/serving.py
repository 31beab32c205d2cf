"""The service as a process: its signals, and its checks before it runs."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from replica_client.cli.interruption import SIGNALS, heard
from replica_client.cli.program import extra_module
from replica_client.errors import ConfigError


def serve(path: Path) -> None:
    """Run the daemon of a configuration file until a signal ends it.

    Raises:
        ConfigError: the configuration is wrong, or the daemon cannot run so.
        OSError: the file cannot be read.
    """
    config = extra_module("replica_client.service.config_file", "daemon").read_config(path)
    service_module = extra_module("replica_client.service.service", "daemon")
    from replica_client.service import checking
    from replica_client.service import process as logs

    # Sinks take relative paths as relative to the configuration.
    os.chdir(config.directory)
    faults = checking.check(config)
    if faults:
        raise ConfigError(f"{config.file}: {faults[0].where}: {faults[0].what}")
    logs.set_up(config.daemon.log_level, config.daemon.log_format)

    async def run() -> None:
        service = service_module.Service(config)
        with heard({**dict.fromkeys(SIGNALS, service.stop), signal.SIGHUP: service.reload}):
            await service.run()

    asyncio.run(run())
