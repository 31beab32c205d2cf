"""Row images that leave columns out (``binlog_row_image`` MINIMAL and NOBLOB), in change files.

MySQL leaves out of an image before a change the columns that the key does not need, and of one
after it the columns that the statement did not set. Columns that only the image before has are
filled in here, so that keys, and rows of tables without a key, are whole; the rest stays absent,
and keeps the value of the existing row.

An INSERT leaves out columns that got their default. Only columns that can have no other default
than NULL are known then. MariaDB also leaves out columns to which a REPLACE gave the default, so
that there a column that both images lack is not known. MariaDB's transactions always have GTIDs, in
a form of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from replica_client.protocol.binlog.values.json_diff import JSON_DIFF
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import PREFIXED_TYPES
from replica_client.schema.shape import TableShape, is_hash

# JSON documents that a source logged in parts, without the document before.
#
# A change of parts is completed from the document in the row image before it. Under
# binlog_row_image=MINIMAL that image lacks it, and the change log has the change as logged.


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


POSTIMAGE: Final = "update_postimage"
PREIMAGE: Final = "update_preimage"

_FULL: Final = "; SET GLOBAL binlog_row_image = 'FULL', then have it copied again (lake copy)"
NO_KEY: Final = f"row images leave columns out, and the table has no primary key{_FULL}"
"""The reason why images that lack columns do not give the rows of a table without a primary key."""

_Lists = list[Sequence[str] | None]
_INSERT: Final = "insert"
# MySQL: a literal is no default of these (error 1101), and images have the values of expressions.
_WITHOUT_LITERALS: Final = PREFIXED_TYPES


def completed(batch: pa.RecordBatch, shape: TableShape) -> pa.RecordBatch:
    """Return changes with columns of images after a change filled in from the images before it.

    Args:
        batch: changes with both images of an update next to each other.
        shape: the table's shape.
    """
    # User columns may have the names of change columns, which come first.
    head = {name: at for at, name in reversed(list(enumerate(batch.schema.names)))}
    absent = batch.column(head["_absent"])
    if absent.null_count == len(absent):
        return batch
    lists: _Lists = absent.to_pylist()
    kinds = batch.column(head["_change_type"]).to_pylist()
    certain = not is_mariadb(batch.column(head["_gtid"]))
    nulls = {c.name for c in shape.columns if c.nullable and c.type_code in _WITHOUT_LITERALS}
    hashes = {column.name for column in shape.columns if is_hash(column)}
    filled: dict[str, list[int]] = {}
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[list[str], list[str]]] = {}
    for at, kind in enumerate(kinds):
        if (lacks := lists[at]) and (kind == _INSERT or hashes):
            empty = hashes | nulls if kind == _INSERT and certain else hashes
            lists[at] = [name for name in lacks if name not in empty] or None
        if kind != POSTIMAGE or not lists[at]:
            continue
        if not at or kinds[at - 1] != PREIMAGE:
            continue
        pair = tuple(lists[at - 1] or ()), tuple(lists[at] or ())
        found = known.get(pair)
        if found is None:
            left = [name for name in pair[1] if name in pair[0]]
            found = known[pair] = [name for name in pair[1] if name not in pair[0]], left
        names, left = found
        if left and not certain:
            continue
        for name in names:
            filled.setdefault(name, []).append(at)
        lists[at] = left or None
    columns = list(batch.columns)
    indexes = list(range(batch.num_rows))
    for name, rows in filled.items():
        at = len(columns) - 1 - batch.schema.names[::-1].index(name)
        source = indexes.copy()
        for row in rows:
            source[row] = row - 1
        columns[at] = columns[at].take(pa.array(source, pa.int32()))
    number = head["_lossless"]
    columns[number] = _lossless(columns[number], filled)
    columns[head["_absent"]] = pa.array(lists, absent.type)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _lossless(found: pa.Array, filled: dict[str, list[int]]) -> pa.Array:
    """Return the lossless texts, with those of the values that were filled in."""
    if found.null_count == len(found):
        return found
    values: list[Any] = found.to_pylist()
    for name, rows in filled.items():
        for row in rows:
            texts = [entry for entry in values[row - 1] or () if entry[0] == name]
            if texts:
                values[row] = [*(values[row] or ()), *texts]
    return pa.array(values, found.type)


def is_mariadb(gtids: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether GTIDs are MariaDB's; MySQL's have a UUID, or are empty."""
    texts = pc.unique(gtids.cast(pa.string())).to_pylist()
    return any(text and ":" not in text for text in texts)


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The facts about the images of a change file that a merge needs.

    Attributes:
        partial: whether images lack columns that stay unchanged.
        moves: whether such an update changes a key.
        lacks: why the images do not give whole rows; ``""`` when they do.
    """

    partial: bool = False
    moves: bool = False
    lacks: str = ""


def image_facts(rows: pa.Table, key: Sequence[str], documents: Sequence[str] = ()) -> ImageFacts:
    """Return the facts about the images of a change file.

    Args:
        rows: in the order of the binlog, with ``operation`` and the key's columns, completed.
        key: names of the key's columns; empty where the table has none.
        documents: names of the JSON columns, as ``_lossless`` has them.
    """
    if _has_diffs(rows, documents):
        return ImageFacts(lacks=PARTIAL_DOCUMENTS)
    absent = rows["_absent"]
    if absent.null_count == len(absent):
        return ImageFacts()
    lacks = pc.fill_null(pc.greater(pc.list_value_length(absent), 0), False)
    kinds = rows["operation"].cast(pa.string())
    if not key:
        return ImageFacts(lacks=NO_KEY) if pc.any(lacks).as_py() else ImageFacts()
    inserts = pc.and_(lacks, pc.equal(kinds, _INSERT))
    if pc.any(inserts).as_py():
        return ImageFacts(lacks=_named("an INSERT", absent.filter(inserts)) + _DEFAULTS)
    after = pc.and_(pc.equal(kinds, POSTIMAGE), lacks)
    if not pc.any(after).as_py():
        return ImageFacts(True)
    if is_mariadb(rows["_gtid"]):
        return ImageFacts(lacks=_named("an UPDATE", absent.filter(after)) + _REPLACED)
    later = pc.indices_nonzero(after)
    before = pc.subtract(later.cast(pa.int64()), 1)
    moves = False
    for name in key:
        same = pc.equal(rows[name].take(later), rows[name].take(before))
        # A date that Arrow cannot hold is null: two nulls may be different dates.
        moves |= not pc.all(pc.fill_null(same, False)).as_py()
    return ImageFacts(True, moves)


def _has_diffs(rows: pa.Table, documents: Sequence[str]) -> bool:
    """Return whether a document is logged as diffs: a null whose text is in ``_lossless``."""
    kept = rows["_lossless"]
    if not documents or kept.null_count == len(kept):
        return False
    return any(name in documents for row in kept.to_pylist() for name, _ in row or ())


_DEFAULTS: Final = f", and the binlog does not have their defaults{_FULL}"
_REPLACED: Final = (
    f": on MariaDB a REPLACE may have given them their defaults{_FULL}; generated columns are left out since 11.8.9 "
    "under every binlog_row_image: leave them out then (drop in the transforms), or exclude the table"
)


def _named(what: str, absent: pa.ChunkedArray) -> str:
    return f"{what} leaves out {', '.join(absent[0].as_py())}"
