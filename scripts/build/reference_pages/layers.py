"""The layers of the package, as the import rules of pyproject.toml have them."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

from reference_pages.markdown import plain, table

_PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def layers() -> str:
    """A row for each layer, the highest first."""
    rules = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (found,) = [one["layers"] for one in rules if one["id"] == "layers"]
    rows = []
    for layer in found:
        names = [name.strip(" ()") for name in layer.split("|")]
        meanings = [f"`{name}`: {_purpose(name)}" for name in names]
        rows.append((", ".join(f"`{name}`" for name in names), "<br>".join(meanings)))
    return table(("layer", "what it is for"), rows)


def _purpose(name: str) -> str:
    text = (import_module(f"replica_client.{name}").__doc__ or "").strip().split("\n\n")[0]
    return plain(" ".join(text.split()))
