"""``--key-file`` and ``--invalid-text``: how binlogs are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from replica_client.binlog.keys import read_keys
from replica_client.binlog.options import DecodeOptions

KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="Keys of encrypted binlogs: a MySQL keyring file or MariaDB's key file.",
    ),
]


AllowEmptyTables = Annotated[
    bool,
    typer.Option("--allow-empty", help="A pattern of tables that matches none is no error."),
]
InvalidText = Annotated[
    Literal["strict", "replace", "bytes"],
    typer.Option(
        "--invalid-text",
        metavar="HOW",
        help="Bytes that are invalid in their character set (the server shows ?): strict stops, replace puts "
        "U+FFFD, bytes gives the value as bytes.",
    ),
]


def decode_options(
    key_file: Path | None,
    verify_checksum: bool = True,
    invalid_text: Literal["strict", "replace", "bytes"] = "strict",
) -> DecodeOptions:
    """Options of decoding with the keys of a file.

    Raises:
        OSError: the file cannot be read.
        ReplicaClientError: it holds no keys.
    """
    keys = read_keys(key_file.read_bytes()) if key_file else {}
    return DecodeOptions(verify_checksum=verify_checksum, keys=keys, invalid_text=invalid_text)
