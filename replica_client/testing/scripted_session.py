"""One connection of a testing source, with its faults applied."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from replica_client.server.dump_start import DumpOrder
from replica_client.server.sender import DumpSender
from replica_client.server.session import ServerSession
from replica_client.testing.faults import Fault, SlowHandshake
from replica_client.testing.scripted_output import ScriptedOutput
from replica_client.testing.scripted_sender import ScriptedSender

if TYPE_CHECKING:
    from replica_client.testing.source import BinlogSource


class ScriptedSession(ServerSession):
    """Serves one client, with the faults of its connection applied.

    Attributes:
        acknowledged: (file, position) of semi-synchronous acknowledgements.
    """

    def __init__(
        self,
        source: BinlogSource,
        connection_id: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        faults: Sequence[Fault],
    ) -> None:
        self._scripted_output = ScriptedOutput(writer, faults)
        super().__init__(source, connection_id, reader, writer, self._scripted_output)
        self.acknowledged: list[tuple[str, int]] = []
        self._faults = faults

    async def run(self) -> None:
        """Serve until the client or a fault ends it."""
        try:
            for fault in self._faults:
                if isinstance(fault, SlowHandshake):
                    await asyncio.sleep(fault.seconds)
        except asyncio.CancelledError:
            await self._stop()
            raise
        await super().run()

    def _acknowledged(self, file: str, position: int) -> None:
        self.acknowledged.append((file, position))

    def _make_sender(self, order: DumpOrder) -> DumpSender:
        return ScriptedSender(self._source.library, order, self._scripted_output, self._faults)
