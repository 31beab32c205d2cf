"""JSON documents that a source logged in parts, without the document before.

A change of parts is completed from the document in the row image before it. Under
binlog_row_image=MINIMAL that image lacks it, and the change log has the change as logged.
"""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from replica_client.protocol.binlog.values.json_diff import JSON_DIFF

PARTIAL_DOCUMENTS: Final = (
    "a JSON document was changed in parts (binlog_row_value_options=PARTIAL_JSON), and its row image lacks the rest; "
    "SET GLOBAL binlog_row_value_options = '' on the source, then have it copied again (lake copy)"
)

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def lacks_documents(rows: pa.Table) -> str:
    """Return why rows of the envelope do not have whole documents; ``""`` when they do."""
    texts = rows["after"]
    some = texts.filter(pc.fill_null(pc.match_substring(texts, JSON_DIFF), False))
    for text in some.to_pylist():
        if any(bytes(one).startswith(JSON_DIFF.encode()) for one in _MEMBERS.decode(text).values()):
            return PARTIAL_DOCUMENTS
    return ""
