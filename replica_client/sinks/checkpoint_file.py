"""A checkpoint file next to the data of a sink, replaced at each commit.

The state of a checkpoint (such as the schema history) changes seldom and can be large. A long state
is stored in a file of its own, to which a commit appends only the new entries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replica_client.errors import PositionFormatError, SinkError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.document import checkpoint_json, checkpoint_of_json
from replica_client.position.stores.growing import split_growing
from replica_client.position.stores.state_file import StateFile
from replica_client.storage.durable import DATA_MODE, replace_file, sync_directory

_VERSION = 2
_OLD_VERSION = 1
"""Old layout: the position, and the name of a file with the whole state."""


class CheckpointFile:
    """The file with a sink's checkpoint and the sink's own data that is saved with it.

    Args:
        directory: directory of the file.
        name: first part of the file names.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.checkpoint.json"
        self._directory = directory
        self._state = StateFile(directory, f"{name}.state-", DATA_MODE)

    def load(self) -> tuple[Checkpoint, dict[str, Any]] | None:
        """Return the checkpoint and the data saved with it, or None if no checkpoint exists.

        Raises:
            SinkError: the file is damaged, or of another release.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            saved = json.loads(text)
            if saved["version"] == _OLD_VERSION:
                return self._load_old(saved), saved["with"]
            if saved["version"] != _VERSION:
                raise ValueError(f"version {saved['version']}")
            return checkpoint_of_json(saved["checkpoint"], self._state.load), saved["with"]
        except (ValueError, KeyError, TypeError, PositionFormatError, FileNotFoundError) as error:
            raise SinkError(
                f"{self.path} is no checkpoint of this release ({error}); bring it back from a backup, "
                "or start over in an empty directory"
            ) from error

    def _load_old(self, saved: Mapping[str, Any]) -> Checkpoint:
        position = Position.from_json(saved["position"])
        state = {}
        if saved["state"]:
            state = json.loads((self._directory / saved["state"]).read_bytes())
        return Checkpoint(position, state)

    def save(self, checkpoint: Checkpoint, with_it: Mapping[str, Any]) -> None:
        """Replace the checkpoint. It survives a crash once this method returns."""
        short, name, texts = split_growing(checkpoint.state)
        stored = None
        if name:
            stored = self._state.save(texts)
            sync_directory(self._directory)
        saved = {
            "version": _VERSION,
            "checkpoint": checkpoint_json(
                checkpoint.position, short, {name: stored} if stored else None
            ),
            "with": dict(with_it),
        }
        replace_file(self.path, json.dumps(saved, indent=1).encode())
        self._state.saved(stored)
