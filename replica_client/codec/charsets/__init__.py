"""Text in every character set of MySQL and MariaDB.

``decode_text`` and ``encode_text`` take a collation id, as table maps and status variables carry it;
:func:`text_decoder` gives the function behind it once per column. What is not text in its character
set is an error unless the caller asks for something else by name.
"""

from replica_client.codec.charsets.text import (
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
