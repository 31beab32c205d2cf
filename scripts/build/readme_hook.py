"""README as the page of a package index shows it: its links lead to the repository.

hatchling runs it (``[tool.hatch.metadata.hooks.custom]``). In the repository links are relative; an index shows the
text alone, where a relative one leads nowhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#|mailto:)(?P<path>[^)]+)\)")


def absolute_links(text: str, home: str) -> str:
    """Markdown with its relative links led to a repository on GitHub, pictures to the files themselves.

    Args:
        text: of the README.
        home: the address of the repository.
    """
    raw = home.replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main/"
    page = home + "/blob/main/"

    def absolute(link: re.Match[str]) -> str:
        base = raw if link["picture"] else page
        return f"{link['picture']}[{link['text']}]({base}{link['path']})"

    return _LINK.sub(absolute, text)


class ReadmeHook(MetadataHookInterface):
    """Fills in the field ``readme``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called with the project's metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, metadata["urls"]["Homepage"]),
        }
