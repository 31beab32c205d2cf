"""Text in every character set of MySQL and MariaDB.

``decode_text`` and ``encode_text`` take a collation id, as table maps and status variables carry
it; :func:`text_decoder` returns the decoding function, to keep for a column. Bytes that are not
text in their character set are an error unless the caller passes another ``errors``.
"""

from replica_client.protocol.codec.charsets.text import (
    Charset,
    TextDecoder,
    UndecodableTextError,
    UnknownCollationError,
    charset_named,
    charset_of,
    decode_text,
    encode_text,
    text_decoder,
)

__all__ = [
    "Charset",
    "TextDecoder",
    "UndecodableTextError",
    "UnknownCollationError",
    "charset_named",
    "charset_of",
    "decode_text",
    "encode_text",
    "text_decoder",
]
