"""The text of MySQL's ``@@global.gtid_owned``: transactions that are being applied or committed.

It is no GTID set. Each number is followed by ``#`` and the id of each thread that owns it, and the
next UUID follows the last id without a separator, as 9.7 writes it::

    7f99a819-e73f-11f1-a881-02fc00000001:5#14:4#1200000000-0000-0000-0000-000000000001:tag:9#11
"""

from __future__ import annotations

import re

from replica_client.errors import GtidFormatError
from replica_client.gtid.mysql import GNO_MAX, GtidSet, GtidSetBuilder, parse_uuid

_SEPARATORS = " \t\n\v\f\r,"
_UUID = re.compile(r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_OWNED = re.compile(r"(?::[a-zA-Z_][a-zA-Z0-9_]{0,31}(?=:[0-9])|:[0-9]{1,19}(?:#[0-9]+)++)++")


def parse_owned_gtids(text: str) -> GtidSet:
    """Parse the GTIDs in the text of ``gtid_owned``.

    Raises:
        GtidFormatError: it has another form; the message quotes the part at fault.
    """
    builder = GtidSetBuilder()
    parts = _UUID.split(text)
    if parts[0].strip(_SEPARATORS):
        raise GtidFormatError(f"not owned GTIDs: {text[:80]!r}")
    for uuid, owned in zip(parts[1::2], parts[2::2], strict=True):
        body = owned.rstrip(_SEPARATORS)
        if not _OWNED.fullmatch(body):
            raise GtidFormatError(f"not owned GTIDs: {(uuid + body)[:80]!r}")
        sid, tag = parse_uuid(uuid), ""
        for item in body[1:].split(":"):
            number, is_number, _ = item.partition("#")
            if not is_number:
                tag = item.lower()
            elif 1 <= int(number) <= GNO_MAX:
                builder.add_number(sid, int(number), tag)
            else:
                raise GtidFormatError(f"number out of range in owned GTIDs: {item[:60]!r}")
    return builder.snapshot()
