"""Global transaction identifiers of MySQL and MariaDB: values, set algebra, text and wire form."""

from __future__ import annotations

import re

from replica_client.protocol.gtid.intervals import Intervals, IntervalsBuilder
from replica_client.protocol.gtid.mariadb import (
    MariadbGtid,
    MariadbGtidSet,
    MariadbSkip,
    parse_owned_gtids,
)
from replica_client.protocol.gtid.mysql import (
    Gtid,
    GtidSet,
    GtidSetBuilder,
    format_uuid,
    parse_uuid,
)

__all__ = [
    "Gtid",
    "GtidSet",
    "GtidSetBuilder",
    "Intervals",
    "IntervalsBuilder",
    "MariadbGtid",
    "MariadbGtidSet",
    "MariadbSkip",
    "format_uuid",
    "parse_gtid_set",
    "parse_owned_gtids",
    "parse_uuid",
]

_MARIADB = re.compile(r"\s*[0-9]{1,10}-[0-9]{1,10}-[0-9]+\s*(,|$)")


def parse_gtid_set(text: str) -> GtidSet | MariadbGtidSet:
    """Parse a GTID set of either flavor; empty text is a MySQL set.

    Raises:
        GtidFormatError: the text is neither.
    """
    return MariadbGtidSet.parse(text) if _MARIADB.match(text) else GtidSet.parse(text)
