"""A Griffe extension: docstrings are written with Sphinx's roles, MkDocs reads Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|attr|data|mod|exc):`~?([\w.]+)`")
_COLONS = re.compile(r"::$", re.MULTILINE)


class MarkdownRoles(griffe.Extension):
    """Makes roles code, and the two colons before a block of code none."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that was read."""
        if obj.docstring is not None:
            text = _ROLE.sub(lambda match: f"`{match[1].rpartition('.')[2]}`", obj.docstring.value)
            obj.docstring.value = _COLONS.sub(
                lambda match: "" if match.string[: match.start()].endswith("\n") else ":", text
            )
