"""Every binlog of the corpus as record batches: by the fast path and without it, and as the object path has it."""

from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import ReplicaClientError
from replica_client.rows.selection import Selection
from tests.corpus.binlogs import CORPUS, binlog_files, require_corpus
from tests.unit.rows.test_columnar import assert_batches_agree
from tests.unit.stream.transactions.test_fast_path import assert_same as assert_fast_path_agrees

FILES = binlog_files()
OPTIONS = rc.AssemblyOptions(
    Selection(),
    on_statement="deliver",
    on_unknown_table="positional",
    on_schema_mismatch="positional",
)


def _arguments(name: str) -> dict[str, Any]:
    return {"source": CORPUS / name, "assembly": OPTIONS}


def test_corpus_is_there() -> None:
    require_corpus()
    assert len(FILES) > 50


@pytest.mark.parametrize("name", FILES)
def test_fast_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_fast_path_agrees(monkeypatch, **_arguments(name))


@pytest.mark.parametrize("name", FILES)
def test_object_path(name: str) -> None:
    arguments = _arguments(name)
    try:
        for change in rc.open_binlog(**arguments).changes():
            assert change.kind
    except ReplicaClientError as error:
        with pytest.raises(type(error)) as caught:
            list(rc.open_binlog(**arguments).batches())
        assert str(caught.value) == str(error)
        return
    assert_batches_agree(**arguments)
