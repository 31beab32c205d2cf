"""JSON documents as the text of the server's ``CAST(j AS CHAR)``."""

from __future__ import annotations

from replica_client.binlog.values.json_writer import JsonTextWriter


def json_text(data: bytes) -> str:
    """Return the text of a document; ``null`` for an empty byte string.

    MySQL stores an empty document where NULL was forced into a NOT NULL column (``INSERT IGNORE``
    or lax SQL mode), and shows it as JSON null.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    text: str = JsonTextWriter().text(data)
    return text
