"""Every column type of a server."""

from collections.abc import Sequence

from tests.integration import (
    values_documents as documents,
    values_scalars as scalars,
    values_strings as strings,
)
from tests.integration.values_kinds import Maker

_END_OF_32_BITS = "2038-01-19 03:14:07"
_END_OF_UNSIGNED = "2106-02-07 06:28:15"


def makers(flavor: str, version: Sequence[int]) -> dict[str, Maker]:
    """A function per column type that makes a variant of it."""
    found: dict[str, Maker] = {
        **scalars.integers(),
        "FLOAT": scalars.floats,
        "DOUBLE": scalars.doubles,
        "DECIMAL": scalars.decimals,
        "BIT": scalars.bits,
        "DATE": scalars.dates,
        "TIME": scalars.times,
        "DATETIME": scalars.datetimes,
        "TIMESTAMP": scalars.timestamps(_END_OF_32_BITS),
        "YEAR": scalars.years,
        **strings.strings(),
        "ENUM": strings.enums,
        "SET": strings.sets,
        **documents.geometries(),
    }
    version = tuple(version)
    if flavor == "mysql":
        if version >= (8, 0):
            found["JSON"] = documents.json_documents
        if version >= (9, 0):
            found["VECTOR"] = documents.vectors
        return found
    found |= strings.compressed_strings() | documents.networks(version)
    found["JSON"] = documents.mariadb_json
    if version >= (11, 5):
        found["TIMESTAMP"] = scalars.timestamps(_END_OF_UNSIGNED)
    if version >= (11, 7):
        found["VECTOR"] = documents.mariadb_vectors
    return found
