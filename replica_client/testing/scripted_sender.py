"""A dump with its faults applied."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.errors import ServerError
from replica_client.server.dump_start import DumpOrder
from replica_client.server.sender import DumpSender
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
from replica_client.testing.faults import (
    CutInFile,
    Fault,
    FlipByte,
    InjectEvent,
    SendError,
    WrongSequence,
)
from replica_client.testing.scripted_output import ScriptedOutput

_PACKET_HEADER_SIZE = 4


class ScriptedSender(DumpSender):
    """One dump, with the faults of its connection applied."""

    def __init__(
        self,
        library: BinlogLibrary,
        order: DumpOrder,
        output: ScriptedOutput,
        faults: Sequence[Fault],
    ) -> None:
        super().__init__(library, order, output)
        self.sends_chunks = not faults
        self._scripted_output = output
        self._event_number = 0
        self._packet_number = 0
        self._flips = [fault for fault in faults if isinstance(fault, FlipByte)]
        self._errors = {f.before_event: f for f in faults if isinstance(f, SendError)}
        self._cuts = [fault for fault in faults if isinstance(fault, CutInFile)]
        self._inserts = [fault for fault in faults if isinstance(fault, InjectEvent)]
        self._misnumbered = {f.packet for f in faults if isinstance(f, WrongSequence)}

    def _before(self, file: ServedFile, position: int, size: int) -> None:
        for cut in self._cuts:
            if cut.file == file.name and position <= cut.offset < position + size:
                head = _PACKET_HEADER_SIZE + (3 if self._order.semi_sync else 1)
                self._scripted_output.cut_after(head + cut.offset - position, cut.reset)

    def _send(self, event: bytes, file: ServedFile) -> None:
        number = self._event_number
        for insert in self._inserts:
            if insert.before_event == number:
                self._put(insert.data)
        if number in self._errors:
            scripted = self._errors[number]
            raise ServerError(scripted.errno, scripted.sqlstate, scripted.message)
        for flip in self._flips:
            if flip.event == number and -len(event) <= flip.offset < len(event):
                changed = bytearray(event)
                changed[flip.offset] ^= 0xFF
                event = bytes(changed)
        self._event_number += 1
        self._put(event)

    def _put(self, event: bytes) -> None:
        if self._packet_number in self._misnumbered:
            self._scripted_output.misnumbered_packet(self._packet_head(event) + event)
        else:
            super()._put(event)
        self._packet_number += 1
