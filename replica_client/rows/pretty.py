"""Display in IPython and Jupyter: one field per line if a line is too short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pretty_call(printer: Any, name: str, fields: Mapping[str, Any]) -> None:
    """Print ``name(field=value, …)``.

    Args:
        printer: IPython's ``RepresentationPrinter``.
        name: of the class.
        fields: names and values to show.
    """
    with printer.group(len(name) + 1, f"{name}(", ")"):
        for number, (field, value) in enumerate(fields.items()):
            if number:
                printer.text(",")
                printer.breakable()
            printer.text(f"{field}=")
            printer.pretty(value)
