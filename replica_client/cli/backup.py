"""``replica-client backup``: a byte-identical copy of a source's binlog files."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from replica_client.archive.backup.backup_catalog import FileRecord
from replica_client.archive.backup.engine import Backup, BackupOptions, BackupStatus
from replica_client.archive.backup.finished_files import KeepOptions
from replica_client.cli.flags import Json, KeyFile, StopAtEnd
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Column, Lines, clock, message, progress_console
from replica_client.cli.sources import live_source
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable
from replica_client.storage.kept_file import (
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    Keeping,
    key_of_environment,
    read_key,
    read_key_file,
)
from replica_client.storage.location import local_path, location

COLUMNS = (
    Column("file", 20),
    Column("bytes", 12, right=True),
    Column("begun (UTC)", 19),
    Column("last event (UTC)", 19),
    Column("sha256", 16),
    Column("GTIDs after it"),
)
_PROGRESS_INTERVAL = 0.1


def backup(
    url: Annotated[str, typer.Argument(metavar="URL", help="The source.")],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Made when it is not there.")],
    stop_at_end: StopAtEnd = False,
    index: Annotated[
        bool,
        typer.Option(
            "--index/--no-index",
            help="Write the index of each finished file that find and undo use.",
        ),
    ] = True,
    compress: Annotated[
        bool, typer.Option("--compress", help="Keep finished files compressed (zstd), in blocks.")
    ] = False,
    encrypt: Annotated[
        bool,
        typer.Option(
            "--encrypt",
            help="Keep finished files encrypted (AES-256-GCM) with the key of --key-file (64 hexadecimal digits), "
            "REPLICA_CLIENT_ARCHIVE_KEY or REPLICA_CLIENT_ARCHIVE_KEY_FILE.",
        ),
    ] = False,
    key_file: KeyFile = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="PLACE",
            help="Keep finished files in this directory, or s3://, gs://, abfss://.",
        ),
    ] = None,
    keep_days: Annotated[
        int | None,
        typer.Option(
            "--keep-days",
            metavar="N",
            min=1,
            help="Remove files whose last event is older than N days.",
        ),
    ] = None,
    after_gap: Annotated[
        bool,
        typer.Option(
            "--after-gap",
            help="Go on after files that the source has purged; a warning and backup.json say so.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Copy a source's binlog files byte for byte, and follow it.

    Every event's checksum is verified. A run goes on where the one before ended, however it ended;
    backup.json in DIR names the files, their SHA-256 and the GTID set before and after each. Prints a
    line for each file that is finished, and for the open one at the end.

    One bit is not in any stream: a MariaDB that is killed just after it made a new file may leave the
    "in use" flag in the one before; the copy of that file has it cleared.

    With --compress, --encrypt or --store, finished files but the newest are kept in another form or place; all
    commands on archives read them there. The newest finished file and the open one stay in DIR as they are.
    """
    if live_source([url]) is None:
        raise typer.BadParameter("give a mysql:// or mariadb:// URL", param_hint="URL")
    run_async(
        _run(
            url,
            local_path(directory, "DIR"),
            BackupOptions(
                stop_at_end=stop_at_end,
                indexes=index,
                keep=_keep_options(compress, encrypt, key_file, store, keep_days),
                after_gap=after_gap,
            ),
            json,
        )
    )


def _keep_options(
    compress: bool, encrypt: bool, key_file: Path | None, store: str | None, days: int | None
) -> KeepOptions | None:
    key: bytes | None = None
    if key_file is not None:
        encrypt = True
        key = read_key(read_key_file(key_file, "--key-file"))
        if key is None:
            raise ConfigError(
                f"{key_file}: a key is 64 hexadecimal digits, as `openssl rand -hex 32` writes"
            )
    elif encrypt:
        key = key_of_environment()
        if key is None:
            raise ConfigError(
                f"--encrypt needs a key: give --key-file, or set {KEY_VARIABLE} or {KEY_FILE_VARIABLE}"
            )
    form = Keeping(compress, key or b"") if compress or encrypt else None
    if form is None and store is None and days is None:
        return None
    return KeepOptions(form, None if store is None else location(store), days)


async def _run(url: str, directory: Path, options: BackupOptions, json: bool) -> None:
    lines = Lines(COLUMNS)
    console = progress_console()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )

    def show(record: FileRecord) -> None:
        progress.stop()  # both may be on one terminal
        if json:
            lines.json(_fields(record))
        else:
            lines.row(_cells(record))
        lines.flush()
        progress.start()

    work = Backup(
        url,
        directory,
        options,
        on_file=show,
        on_progress=_Shown(progress),
    )
    last: FileRecord | None = None
    with progress:
        try:
            last = await work.run()
        finally:
            record = last or work.newest
            if record is not None and not record.finished:
                show(record)
    if work.kept_fault:
        message(f"files were not kept as asked, and stay in {directory}: {work.kept_fault}")
    if last is None:
        message("the source has no binlog files")


class _Shown:
    """The backup's status as a progress bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("connecting", total=None)
        self._total: int | None = None
        self._connections = -1
        self._drawn = 0.0

    def __call__(self, status: BackupStatus) -> None:
        if status.connections != self._connections:
            self._connections = status.connections
            self._total = None if status.behind is None else status.appended + status.behind
        total = self._total
        if total is not None:
            total = max(total, status.appended)
        if total != status.appended and time.monotonic() - self._drawn < _PROGRESS_INTERVAL:
            return
        self._drawn = time.monotonic()
        where = f"{printable(status.file)}:{status.position}" if status.file else "connecting"
        if total == status.appended:
            where += ", up to date"
        self._progress.update(
            self._task,
            description=where,
            completed=status.appended,
            total=total,
        )


def _fields(record: FileRecord) -> dict[str, Any]:
    fields = asdict(record)
    return {"file": fields.pop("name"), **fields}


def _cells(record: FileRecord) -> tuple[Any, ...]:
    return (
        record.name,
        record.size,
        clock(record.first_timestamp),
        clock(record.last_timestamp),
        record.sha256[:16] if record.sha256 else "open",
        record.gtid_set_after or "",
    )
