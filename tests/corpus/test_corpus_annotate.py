"""``annotate`` over every binlog of the corpus: each byte once, values as the decoder has them."""

import pytest

from replica_client.cli.file_check import raw_events
from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import DecodeOptions
from tests.corpus.binlogs import CORPUS, binlog_files, require_corpus
from tests.unit.cli.annotations import annotated, compared, uncovered


@pytest.fixture(autouse=True)
def _corpus_is_there():
    require_corpus()


@pytest.mark.parametrize("name", binlog_files() or ["none"])
def test_every_byte_of_every_event_is_covered_once(name):
    path = CORPUS / name
    decoder = BinlogDecoder(DecodeOptions(verify_checksum=False), path.name)
    try:
        for position, raw in raw_events(path, decoder):
            try:
                event = decoder.decode(raw, position)
            except BinlogDecodeError:
                continue
            data = decoder.decrypted(raw, position)
            annotated_bytes = annotated(data, event, decoder)
            assert uncovered(data, annotated_bytes) is None, position
            assert not [
                field_bytes for field_bytes in annotated_bytes if field_bytes.field == "unexplained"
            ], position
            assert not compared(event, annotated_bytes)[1], position
    except BinlogDecodeError:
        # A file that ends inside an event; what is before it was looked at.
        pass
