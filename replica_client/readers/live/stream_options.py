"""Options of a stream from a live source."""

from __future__ import annotations

from dataclasses import field, replace

from replica_client.binlog.options import DecodeOptions
from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import ConfigError
from replica_client.readers.assembler import AssemblyOptions
from replica_client.readers.live.reconnect import ReconnectPolicy
from replica_client.readers.start_position import Start
from replica_client.readers.transforms.transformer import Transformer
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.transport.connection import DEFAULT_HEARTBEAT_PERIOD


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream.

    Attributes:
        start: where to start when the position store is empty.
        stop_at_end: end at the end of the source's binlog instead of waiting.
        server_id: ours, unique among the source's replicas; None: a random one of 32 bits.
        heartbeat_period: seconds of silence after which the source sends a heartbeat.
        read_timeout: seconds without a byte after which the connection is dead; None: three
            heartbeats.
        semi_sync: ask for semi-synchronous replication; the stream's ``acknowledge`` answers it.
        reconnect: when and how often to reconnect.
        assembly: how transactions are put together.
        decode: how values are decoded.
        schema: definitions at the start; None: what the source and its binlog prove.
        transform: transforms of everything that is delivered; None: no transform.
        allow_empty: accept patterns of tables that match nothing, after a whole finite read and at
            the start of an endless one.
    """

    start: Start = "latest"
    stop_at_end: bool = False
    server_id: int | None = None
    heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD
    read_timeout: float | None = None
    semi_sync: bool = False
    reconnect: ReconnectPolicy = field(default=ReconnectPolicy(attempts=20, first_attempts=1))
    assembly: AssemblyOptions = field(default_factory=lambda: AssemblyOptions(Selection()))
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    schema: SchemaHistory | None = None
    transform: Transformer | None = None
    allow_empty: bool = True

    def __post_init__(self) -> None:
        if self.server_id is not None and not 0 < self.server_id < 1 << 32:
            raise ConfigError(f"server_id {self.server_id} is not between 1 and 4294967295")
        if self.transform is not None and self.transform.hides:
            object.__setattr__(self, "assembly", replace(self.assembly, withholds_texts=True))
