"""What is public is listed, documented, and changes only where somebody says so."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import re
from pathlib import Path

import pytest

import replica_client
from tests.recipes.served import served
from tests.unit.documents.pages import ROOT, furnish

pytest.importorskip("pyspark", reason="the reference has Spark's tables")
from reference_pages.public_names import FILE, public_text

API = (ROOT / "docs/content/reference/api.md").read_text(encoding="utf-8")
ERRORS = {name for name in replica_client.__all__ if name.endswith("Error")}


def test_names_and_signatures_are_those_that_are_listed() -> None:
    assert FILE.read_text(encoding="utf-8").splitlines() == public_text().splitlines(), (
        "public names changed; see docs/content/reference/public.md, then run scripts/capture/public_names"
    )


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    shown = {match.rpartition(".")[2] for match in re.findall(r"^::: (\S+)$", API, re.MULTILINE)}
    in_text = set(re.findall(r"`rc\.(\w+)", API))
    assert set(replica_client.__all__) - ERRORS <= shown | in_text


def test_every_public_name_has_a_docstring() -> None:
    for name in replica_client.__all__:
        found = getattr(replica_client, name)
        if isinstance(found, type) or callable(found):
            assert (found.__doc__ or "").strip(), name


CLASSES = [
    name
    for name in replica_client.__all__
    if isinstance(getattr(replica_client, name), type) and name not in ERRORS
]


@pytest.mark.parametrize("name", CLASSES)
def test_the_example_of_a_public_class_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = inspect.getdoc(getattr(replica_client, name)) or ""
    assert ">>> " in text, "it has no example"
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    with served() as source:
        names = {"rc": replica_client, "url": source.url, "asyncio": asyncio}
        test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
        stated: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=stated.append)
    assert not stated, "".join(stated)


OF_ROWS = {"DataLossError", "SchemaError", "SpoolError"}
OF_A_LIVE_SOURCE = {"ServerError", "SourceChangedError", "ProtocolError", "TransportError"}


@pytest.mark.parametrize("kind", ["SourceStream", "FollowedSource", "BinlogFileReader"])
@pytest.mark.parametrize("iterator", ["events", "transactions", "changes", "batches"])
def test_every_iterator_says_what_it_raises(kind: str, iterator: str) -> None:
    text = inspect.getdoc(getattr(getattr(replica_client, kind), iterator)) or ""
    stated = set(re.findall(r"^ {4}(\w+Error): \S", text.partition("\nRaises:\n")[2], re.MULTILINE))
    live = kind != "BinlogFileReader"
    assert stated == (
        {"BinlogDecodeError"}
        | (OF_ROWS if iterator != "events" else set())
        | ({"ConfigError"} if iterator == "batches" else set())
        | (OF_A_LIVE_SOURCE if live else {"OSError"})
    )
