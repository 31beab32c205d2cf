"""The real Debezium's recorded output, beside what the format makes of the binlogs that it was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_client.schema.known_tables import LogPosition
from tests.corpus.binlogs import CORPUS, require_corpus
from tests.integration.debezium_comparison import Comparison, Record, our_records

DIRECTORY = CORPUS / "debezium"
# Set, where its stream begins in the binlog, records that were compared.
SETS = (
    ("1-schemas-precise-bytes-transactions", 53),
    ("2-plain-string-connect-base64", 47),
    ("3-plain-double-isostring-hex", 38),
)
STREAM = 5475


@pytest.fixture(scope="module", autouse=True)
def _corpus_is_there() -> None:
    require_corpus()


def _payload(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(text)
    found: dict[str, Any] = loaded.get("payload", loaded)
    return found


def _recorded(name: str) -> tuple[list[Record], str]:
    """The records of the stream, and the name that the binlog had."""
    lines = (DIRECTORY / f"{name}.jsonl").read_text().splitlines()
    found, file = [], ""
    for one in map(json.loads, lines):
        source = (_payload(one["value"]).get("source") or {}) if one["value"] else {}
        file = source.get("file", file)
        if source.get("snapshot", "false") == "false":
            found.append(Record(one["topic"], one["key"], one["value"]))
    return found, file


def _compared(name: str, directory: Path, restarts: int | None) -> Comparison:
    properties = json.loads((DIRECTORY / "configs.json").read_text())[name]
    theirs, file = _recorded(name)
    binlog = directory / file
    binlog.symlink_to(DIRECTORY / f"{name}.binlog")
    since = LogPosition.of(file, STREAM)
    ours = list(our_records([binlog], properties, since=since, restarts=restarts))
    if name.startswith("1"):
        # Of the beginnings and ends of transactions only some were kept.
        kept = [
            _payload(one.key)["id"] for one in theirs if one.key and ".transaction" in one.topic
        ]
        ours = [
            one
            for one in ours
            if not one.topic.endswith(".transaction") or _payload(one.key or "")["id"] in kept
        ]
    comparison = Comparison(properties)
    comparison.compare(theirs, ours)
    return comparison


@pytest.mark.parametrize("restarts", [None, 1, 2])
@pytest.mark.parametrize(("name", "records"), SETS)
def test_every_field_is_debeziums(
    name: str, records: int, restarts: int | None, tmp_path: Path
) -> None:
    comparison = _compared(name, tmp_path, restarts)
    assert not comparison.unexplained
    assert comparison.records == records


def test_a_comparison_sees_what_differs() -> None:
    comparison = Comparison({"topic.prefix": "dbz"})
    value = {"after": {"id": 1, "name": "a"}, "op": "c", "source": {"ts_ms": 5}}
    other = {"after": {"id": 1.5, "n": "a"}, "op": "u", "source": {"ts_ms": 6}}
    comparison.compare(
        [Record("dbz.shop.t", None, json.dumps(value))],
        [Record("dbz.shop.t", None, json.dumps(other))],
    )
    assert len(comparison.unexplained) == 5
