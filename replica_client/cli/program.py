"""The command's name, for messages."""

from __future__ import annotations

from typing import Final

PROGRAM: Final = "replica-client"
