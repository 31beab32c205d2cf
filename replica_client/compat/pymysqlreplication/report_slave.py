"""The entry of this client in a source's list of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica_client.protocol.wire.dump_commands import ComRegisterSlave
from replica_client.protocol.wire.framing import encode_packets


class ReportSlave:
    """The data that a source lists of this client: a host name, a tuple (host, user, password, port), or a dict."""

    hostname = ""
    username = ""
    password = ""
    port = 0

    def __init__(self, value: str | tuple[Any, ...] | list[Any] | Mapping[str, Any]) -> None:
        names = ("hostname", "username", "password", "port")
        if isinstance(value, Mapping):
            for name in names:
                if name in value:
                    setattr(self, name, value[name])
        elif isinstance(value, (tuple, list)):
            for name, part in zip(names, value, strict=False):
                setattr(self, name, part)
        else:
            self.hostname = value

    def __repr__(self) -> str:
        return (
            f"<ReportSlave hostname={self.hostname} username={self.username} "
            f"password={'***' if self.password else ''} port={self.port}>"
        )

    def command(self, server_id: int, master_id: int = 0) -> ComRegisterSlave:
        """Return the command that registers this client."""
        return ComRegisterSlave(
            server_id,
            self.hostname,
            self.username,
            int(self.port),
            self.password,
            master_id=master_id,
        )

    def encoded(self, server_id: int, master_id: int = 0) -> bytes:
        """Return the packet of :meth:`command`."""
        return encode_packets(self.command(server_id, master_id).encode())
