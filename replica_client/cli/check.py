"""``replica-client check``: whether binlog files are whole, and decode to the last byte."""

from __future__ import annotations

from typing import Annotated

import typer

from replica_client.cli.file_check import check_files
from replica_client.cli.flags import InvalidText, Json, KeyFile, decode_options


def check(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Binlog files or directories.")
    ],
    key_file: KeyFile = None,
    invalid_text: InvalidText = "strict",
    json: Json = False,
) -> None:
    """Verify binlog files byte for byte.

    Every checksum is verified, every event and row is decoded (with what the statements in the files tell of
    their tables), and every event is encoded again and
    compared with its bytes. Prints the events per type, and the first fault of each kind with file,
    position and reason.
    """
    check_files(paths, decode_options(key_file, invalid_text=invalid_text), json=json)
