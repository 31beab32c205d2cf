"""The systemd unit of the daemon."""

from __future__ import annotations

import re
from pathlib import Path

from replica_client.daemon.configuration import DaemonConfig

_UNIT = """\
[Unit]
Description=replica-client: follows MySQL and MariaDB sources ({config})
Documentation=man:systemd.service(5)
After=network-online.target
Wants=network-online.target
# It tries again by itself what fails; who ends ten times in five minutes cannot start at all.
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
ExecStart={command} run {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=1
WatchdogSec=60
TimeoutStopSec={stop}
# Secrets as variables: ${{NAME}} in the configuration.
EnvironmentFile=-/etc/default/replica-client
DynamicUser=yes
StateDirectory=replica-client
# The state directory in the configuration is this one:
Environment=REPLICA_CLIENT__DAEMON__STATE=/var/lib/replica-client
# glibc gives each thread a heap of its own; what is freed there stays: some MiB more after hundreds of reconnects.
Environment=MALLOC_ARENA_MAX=1
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
LockPersonality=yes
ProtectProc=invisible
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# CPython and the libraries of the sinks make no code while they run; remove this for one of your own that does.
MemoryDenyWriteExecute=yes
{writable}
[Install]
WantedBy=multi-user.target
"""


def unit_file(config: DaemonConfig, command: Path) -> str:
    """Return the text of the systemd unit that runs a configuration.

    Args:
        config: the configuration.
        command: the installed ``replica-client``.
    """

    def absolute(value: object) -> Path | None:
        """Return a path of the configuration; None for a URL, a variable or no path."""
        if not isinstance(value, str) or not value:
            return None
        return None if re.search(r"\$|://", str(value)) else (config.directory / value).absolute()

    files = [route.options.get("path") for route in config.routes]
    files += [route.sink.dead_letters for route in config.routes]
    directories = [route.options.get("directory") for route in config.routes]
    (directories if config.store.type == "file" else files).append(config.store.path)
    found = {one.parent for one in map(absolute, files) if one}
    paths = sorted({*map(str, found), *(str(one) for one in map(absolute, directories) if one)})
    writable = f"# Where sinks write:\nReadWritePaths={' '.join(paths)}\n" if paths else ""
    return _UNIT.format(
        config=config.file,
        command=command,
        stop=int(config.daemon.stop_timeout + 10),
        writable=writable,
    )
