"""Layout of TRANSACTION_PAYLOAD."""

from __future__ import annotations

from replica_client.cli.annotation.annotator import Annotator
from replica_client.protocol.binlog.context import EventContext

_NAMES = {1: "payload_size", 2: "compression_type", 3: "uncompressed_size"}
_UNITS = {1: "bytes", 2: "0: zstd, 255: none", 3: "bytes"}


def transaction_payload(a: Annotator, ctx: EventContext) -> None:
    """TRANSACTION_PAYLOAD: tagged fields up to a 0, then the compressed events."""
    a.section = "post-header"
    payload_size = None
    while code := a.lenenc("field type", "0: end"):
        name = _NAMES.get(code, f"field {code}")
        size = a.lenenc(f"{name} length", "bytes")
        if code not in _NAMES:
            a.take(name, size, "not known")
            continue
        value = a.lenenc(name, _UNITS[code])
        if code == 1:
            payload_size = value
    a.section = "body"
    a.take("payload", a.remaining if payload_size is None else payload_size, "compressed events")
