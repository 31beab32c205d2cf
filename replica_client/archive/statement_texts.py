"""The texts of the statements that changed rows, where a source logs them."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import closing

from replica_client.archive.binlog_archive import IndexedFiles
from replica_client.protocol.binlog.layout import HEADER_SIZE, EventClass, types_of
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.rows.row_change import Change
from replica_client.stream.files.file_batches import DESCRIPTIVE
from replica_client.stream.files.file_bytes import open_events
from replica_client.stream.transactions.event_feed import EventFeed
from replica_client.stream.transactions.transaction import Transaction

_ANNOTATIONS = types_of(EventClass.ANNOTATION)
_KEPT = 64
_NUMBER = HEADER_SIZE + 4


class StatementTexts:
    """A finder of the statements of changes; reads the statements of a transaction once.

    Args:
        files: the files of the archive.
    """

    def __init__(self, files: IndexedFiles) -> None:
        self._files = {file.name: file for file in files.binlog_files}
        self._decode = files.decode
        self._known: dict[Position, tuple[list[int], list[str]]] = {}

    def of(self, transaction: Transaction, change: Change) -> str | None:
        """Return the text of a change's statement; None where the binlog does not have it.

        Raises:
            BinlogDecodeError: the file is damaged.
        """
        if transaction.xa_commit:
            return None
        start = transaction.start
        known = self._known.get(start)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[start] = self._read(transaction)
        indexes, texts = known
        at = bisect_right(indexes, change.event_index)
        return texts[at - 1] if at else None

    def _read(self, transaction: Transaction) -> tuple[list[int], list[str]]:
        """Return the texts of a transaction, and the indexes of their events in it."""
        indexes: list[int] = []
        texts: list[str] = []
        start, end = transaction.start, transaction.position
        if start.file != end.file:
            return indexes, texts
        feed = EventFeed(self._decode, Position(start.file, start.offset), mode="file")
        with closing(self._files[start.file].open()) as stream:
            source = open_events(stream, start.file, self._decode)
            index = 0
            while True:
                position = source.position
                if position >= end.offset:
                    return indexes, texts
                data = source.next_event(
                    feed.decoder.format.header_size, self._decode.max_event_size
                )
                if data is None:
                    return indexes, texts
                if position < start.offset:
                    if data[4] in DESCRIPTIVE:
                        feed.decoder.decode(data, position, start.file)
                    else:
                        source.skip_to(start.offset)
                    continue
                plain = feed.decoder.decrypted(data, position)
                if plain[4] == EventType.TRANSACTION_PAYLOAD_EVENT:
                    outer = feed.decoder.decode(data, position, start.file)
                    index += 1
                    for event in feed.decoder.inner_events(outer):
                        if event.header.type_code in _ANNOTATIONS:
                            indexes.append(index)
                            texts.append(_text(event.body.query))
                        index += 1
                    continue
                if plain[4] in _ANNOTATIONS:
                    event = feed.decoder.decode(data, position, start.file)
                    indexes.append(index)
                    texts.append(_text(event.body.query))
                index += 1
                if plain[4] == EventType.PARTIAL_ROW_DATA_EVENT:
                    # The rows event that its last fragment completes has an index of its own.
                    index += plain[HEADER_SIZE:_NUMBER] == plain[_NUMBER : _NUMBER + 4]


def _text(query: bytes | str) -> str:
    return query if isinstance(query, str) else query.decode("utf-8", "replace")
