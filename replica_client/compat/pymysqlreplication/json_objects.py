"""Values of JSON documents as python-mysql-replication gives them, also where they are wrong."""

from __future__ import annotations

import datetime
from typing import Any

from replica_client.compat.row_dicts import document_value as document_value
from replica_client.protocol.binlog.values.json_binary import JsonDocument

_MIDNIGHT = datetime.datetime(1970, 1, 1)  # noqa: DTZ001


def legacy_document_value(document: JsonDocument) -> Any:
    """Return a document's value as python-mysql-replication does: negative TIME loses its sign."""
    return _unsigned(document_value(document.data))


def _unsigned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unsigned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unsigned(item) for item in value]
    if isinstance(value, datetime.timedelta) and value < datetime.timedelta():
        positive = -value
        if positive < datetime.timedelta(days=1):
            return (_MIDNIGHT + positive).time()
    return value
