"""What is public is listed, documented, and changes only where somebody says so."""

from __future__ import annotations

import re
import sys

import replica_client
from tests.unit.documents.pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from reference_pages.public_names import FILE, public_text

API = (ROOT / "docs/content/reference/api.md").read_text(encoding="utf-8")
ERRORS = {name for name in replica_client.__all__ if name.endswith("Error")}


def test_names_and_signatures_are_those_that_are_listed() -> None:
    assert FILE.read_text(encoding="utf-8").splitlines() == public_text().splitlines(), (
        "public names changed; see docs/content/reference/public.md, then run scripts/public_names"
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
