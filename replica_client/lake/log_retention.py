"""Retention of the change log: old changes that every table has applied are removed."""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from replica_client.errors import SinkError
from replica_client.lake.config import PipelineConfig
from replica_client.lake.delta_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.log_steps import first_untaken
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.lake.unmerged import from_json
from replica_client.storage.store_errors import reason_of

_PAUSE: Final = 3600.0
_READERS_HOURS: Final = 24
"""Hours that a file stays after the version that removed it, for readers of older versions."""


class Retention:
    """The retention of a pipeline's change log; a run applies it repeatedly.

    Args:
        config: the pipeline's configuration.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._next = 0.0

    def apply(self, catalog: LakeCatalog | None) -> int:
        """Remove files from the change log, at the first call and then once an hour.

        Changes that the current tables have not applied stay, and all changes while a table is
        copied: the copy is brought up to date from the log. A batch that another process commits at
        the same time goes first.

        Args:
            catalog: the lake's catalog; None where there are no current tables.

        Returns:
            the number of files that the newest version no longer has.

        Raises:
            SinkError: the change log cannot be read or written.
        """
        seconds = self._config.lake.retain
        if seconds is None or time.monotonic() < self._next:
            return 0
        if catalog is not None and any(t.status == "copying" for t in catalog.tables.values()):
            return 0
        self._next = time.monotonic() + _PAUSE
        return forget_changes(self._config, catalog, time.time() - seconds)


def forget_changes(config: PipelineConfig, catalog: LakeCatalog | None, before: float) -> int:
    """Remove applied changes that were written before a time, in seconds since 1970.

    Return the number of files that the newest version no longer has.
    """
    log = ChangeLogVersions(config.change_log)
    try:
        needed: set[str] = set()
        if catalog is not None:
            for entry in catalog.tables.values():
                needed |= {file.path for _, file in from_json(entry.waiting)}
            for number in range(first_untaken(catalog.step), log.latest() + 1):
                needed |= {file.path for file in log.version(number).files}
        delta = open_delta(config.change_log)
        there = pa.table(delta.get_add_actions(flatten=True))
        now = int(time.time() * 1000)
        gone: list[AddAction | RemoveAction] = [
            RemoveAction(path, True, now, size)
            for path, size, written in zip(
                there["path"].to_pylist(),
                there["size_bytes"].to_pylist(),
                there["modification_time"].cast(pa.int64()).to_pylist(),
                strict=True,
            )
            if written < before * 1000 and path not in needed
        ]
        if gone:
            delta.create_write_transaction(
                gone,
                mode="append",
                schema=delta.schema(),
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        delta.vacuum(
            retention_hours=_READERS_HOURS, dry_run=False, enforce_retention_duration=False
        )
    except CommitFailedError:
        return 0
    except (DeltaError, OSError) as error:
        text = reason_of(error, config.change_log)
        raise SinkError(f"{config.change_log}: {text}") from None
    return len(gone)
