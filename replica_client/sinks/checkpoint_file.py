"""A checkpoint beside the data of a sink: one file that is replaced at each commit.

The state of a checkpoint (such as the schema history) changes seldom and can be large: it stands in a
file of its own, which is written before the checkpoint that names it, and removed after.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replica_client.errors import PositionFormatError, SinkError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.sinks.durable import replace_file, sync_directory

_VERSION = 1


class CheckpointFile:
    """Keeps a checkpoint and what the sink must know together with it.

    Args:
        directory: where.
        name: start of the files' names.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.checkpoint.json"
        self._directory = directory
        self._state_prefix = f"{name}.state-"
        self._state_name = ""
        self._state: Mapping[str, object] = {}

    def load(self) -> tuple[Checkpoint, dict[str, Any]] | None:
        """The checkpoint and what was saved with it; None when there is none yet.

        Raises:
            SinkError: it is not what was written.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            saved = json.loads(text)
            if saved["version"] != _VERSION:
                raise ValueError(f"version {saved['version']}")
            position = Position.from_json(saved["position"])
            self._state_name = saved["state"]
            self._state = {}
            if self._state_name:
                self._state = json.loads((self._directory / self._state_name).read_bytes())
            with_it = saved["with"]
        except (ValueError, KeyError, TypeError, PositionFormatError, FileNotFoundError) as error:
            raise SinkError(
                f"{self.path} is no checkpoint of this release ({error}); bring it back from a backup, "
                "or begin anew in an empty directory"
            ) from error
        self._remove_states()
        return Checkpoint(position, self._state), with_it

    def save(self, checkpoint: Checkpoint, with_it: Mapping[str, Any]) -> None:
        """Replace the checkpoint; when this returns it survives a crash."""
        changed = checkpoint.state is not self._state and checkpoint.state != self._state
        if changed:
            self._save_state(checkpoint.state)
        saved = {
            "version": _VERSION,
            "position": checkpoint.position.to_json(),
            "state": self._state_name,
            "with": dict(with_it),
        }
        replace_file(self.path, json.dumps(saved, indent=1).encode())
        self._state = checkpoint.state
        if changed:
            self._remove_states()

    def _save_state(self, state: Mapping[str, object]) -> None:
        number = int(self._state_name.removeprefix(self._state_prefix).removesuffix(".json") or 0)
        self._state_name = ""
        if state:
            self._state_name = f"{self._state_prefix}{number + 1}.json"
            replace_file(self._directory / self._state_name, json.dumps(dict(state)).encode())

    def _remove_states(self) -> None:
        """Remove states that no checkpoint names."""
        found = False
        for path in self._directory.glob(f"{self._state_prefix}*"):
            if path.name != self._state_name:
                os.unlink(path)
                found = True
        if found:
            sync_directory(self._directory)
