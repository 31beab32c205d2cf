"""Signatures of requests, as the Standard Webhooks specification defines them.

``webhook-signature`` is ``v1,`` and the base64 of an HMAC-SHA-256 of ``ID.TIMESTAMP.BODY``.
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from replica_client.errors import ConfigError

_PREFIX: Final = "whsec_"


def signing_key(text: str) -> bytes:
    """Return the key for a text: base64 after ``whsec_``, otherwise the text itself.

    Raises:
        ConfigError: the text after ``whsec_`` is not base64.
    """
    if not text.startswith(_PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigError("sink http: key: base64 is wanted behind whsec_") from None


def signature(key: bytes, name: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``.

    Args:
        key: the shared key of sender and receiver.
        name: the request's id.
        timestamp: seconds since 1970.
        body: body of the request as it is sent.
    """
    text = f"{name}.{timestamp}.".encode() + body
    digest = hmac.new(key, text, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()
