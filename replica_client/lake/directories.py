"""Directories of tables, moved such that a crash in between can be taken up again."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from replica_client.errors import SinkError
from replica_client.storage.durable import replace_file, sync_directory

_JOURNAL = ".moves.json"


def discard(directory: Path, staging: Path) -> None:
    """Take a directory away at once, and delete it then."""
    if not directory.exists():
        return
    staging.mkdir(parents=True, exist_ok=True)
    gone = staging / f".gone-{uuid.uuid4().hex}"
    directory.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def install(source: Path, target: Path, staging: Path) -> None:
    """Let a directory take the place of another one."""
    discard(target, staging)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    sync_directory(target.parent)


def move_directories(staging: Path, moves: Sequence[tuple[Path, Path]], step: int) -> None:
    """Move directories as if all at once: names may be exchanged.

    A journal says how far it is; doing it again after a crash finishes it, and changes nothing when it
    was finished.

    Args:
        staging: a directory on the same file system.
        moves: from where, to where.
        step: tells these moves from others.

    Raises:
        SinkError: a directory cannot be moved.
    """
    try:
        staging.mkdir(parents=True, exist_ok=True)
        journal = staging / _JOURNAL
        phase = _phase(journal, step)
        between = [staging / f".move-{step}-{at}" for at in range(len(moves))]
        if phase == "":
            _write(journal, step, phase := "taking")
        if phase == "taking":
            for (source, _), middle in zip(moves, between, strict=True):
                if source.exists() and not middle.exists():
                    source.rename(middle)
                    sync_directory(source.parent)
            _write(journal, step, phase := "placing")
        if phase == "placing":
            for (_, target), middle in zip(moves, between, strict=True):
                if middle.exists():
                    install(middle, target, staging)
            _write(journal, step, "done")
    except OSError as error:
        raise SinkError(f"{error.filename}: cannot be moved: {error.strerror}") from None


def _phase(journal: Path, step: int) -> str:
    try:
        value = json.loads(journal.read_text())
    except FileNotFoundError:
        return ""
    return str(value["phase"]) if value["step"] == step else ""


def _write(journal: Path, step: int, phase: str) -> None:
    replace_file(journal, json.dumps({"step": step, "phase": phase}).encode(), mode=0o666)
