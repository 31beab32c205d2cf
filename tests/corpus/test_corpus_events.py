"""Events by the fast path and by the full decoder, of every file of the corpus."""

from __future__ import annotations

import pytest

from replica_client.protocol.binlog.event import DecodeOptions
from tests.corpus.binlogs import CORPUS, binlog_files, require_corpus
from tests.unit.stream.files.test_events import check


@pytest.mark.parametrize("name", binlog_files())
def test_fast_events_are_those_of_the_full_decoder(name: str) -> None:
    require_corpus()
    check((CORPUS / name).read_bytes(), DecodeOptions())
