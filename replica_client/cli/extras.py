"""Modules that need packages of an extra."""

from __future__ import annotations

import importlib
from typing import Any

from replica_client.cli.failures import MissingExtraError


def extra_module(name: str, extra: str) -> Any:
    """Import a module of this package that needs an extra.

    Raises:
        MissingExtraError: a package of the extra is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if not missing or missing == "replica_client":
            raise
        raise MissingExtraError(missing, extra) from error
