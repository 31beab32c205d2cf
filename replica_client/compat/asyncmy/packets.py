"""An event's header and bytes under asyncmy's names."""

from __future__ import annotations

from typing import Any

from replica_client.compat.asyncmy.constants import *  # noqa: F403
from replica_client.compat.asyncmy.utils import byte2int as byte2int
from replica_client.compat.pymysqlreplication.json_binary import (
    parse_json,
    parse_json_object_or_array,
)
from replica_client.compat.pymysqlreplication.packet import BinLogPacketWrapper

_NUMBER_SIZES = {0x5: 2, 0x6: 2, 0x7: 4, 0x8: 4, 0x9: 8, 0xA: 8, 0xB: 8}
_LITERAL = 0x4


class BinLogPacket(BinLogPacketWrapper):
    """The header of an event, and its bytes; events have one as ``packet``, of the base class.

    Args:
        packet: of a driver.
        table_map: tables by number.
        connection: that is asked about tables.
        use_checksum: whether the event ends in a checksum.
        allowed_events: without effect.
        only_tables: names of wanted tables.
        ignored_tables: names of unwanted tables.
        only_schemas: names of wanted databases.
        ignored_schemas: names of unwanted databases.
        freeze_schema: without effect.
    """

    def __init__(
        self,
        packet: Any,
        table_map: Any,
        connection: Any,
        use_checksum: bool,
        allowed_events: Any,
        only_tables: Any,
        ignored_tables: Any,
        only_schemas: Any,
        ignored_schemas: Any,
        freeze_schema: bool,
    ) -> None:
        super().__init__(
            packet,
            table_map,
            connection,
            (0, 0, 0),
            use_checksum,
            allowed_events,
            only_tables,
            ignored_tables,
            only_schemas,
            ignored_schemas,
            freeze_schema,
            ignore_decode_errors=False,
            verify_checksum=False,
            optional_meta_data=False,
            enable_logging=False,
        )

    async def init(self) -> None:
        """Do nothing: an event is complete from the start."""

    def read_binary_json(self, size: int, is_partial: bool = False) -> Any:
        """Read a JSON document after its length of ``size`` bytes."""
        return super().read_binary_json(size, is_partial)

    def read_binary_json_type(self, t: int, length: int) -> Any:
        """Read a value of type ``t`` from a document, of at most ``length`` bytes.

        Raises:
            ColumnDecodeError: the bytes are not one.
        """
        return parse_json(t, self.read(_NUMBER_SIZES.get(t, 1 if t == _LITERAL else length)))

    def read_binary_json_type_inlined(self, t: int, large: bool) -> Any:
        """Read a value that is stored in the entry of a container."""
        return parse_json(t, self.read(4 if large else 2))

    def read_binary_json_object(self, length: int, large: bool) -> Any:
        """Read an object of ``length`` bytes."""
        return parse_json_object_or_array(self.read(length), not large, True)

    def read_binary_json_array(self, length: int, large: bool) -> Any:
        """Read an array of ``length`` bytes."""
        return parse_json_object_or_array(self.read(length), not large, False)

    @staticmethod
    def read_offset_or_inline(packet: Any, large: bool) -> tuple[int, int | None, Any]:
        """Read an entry of a container: its type, and either an offset or the value itself."""
        t = packet.read_uint8()
        inline = (0x4, 0x5, 0x6, 0x7, 0x8) if large else (0x4, 0x5, 0x6)
        if t in inline:
            return t, None, packet.read_binary_json_type_inlined(t, large)
        return t, packet.read_uint32() if large else packet.read_uint16(), None
