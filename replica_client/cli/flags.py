"""Options that several commands have: one word, one metavar and one meaning for each, and the older words.

A command takes its options from here where one is listed; a test compares all commands with this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperCommand

from replica_client.errors import ConfigError
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.binlog.encryption import read_keys

Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="PATTERN",
        help="Only these tables: database.table with * and ?; repeatable.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="PATTERN",
        help="Not these tables; repeatable. mysql and sys are left out unless --table names them.",
    ),
]
Begin = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="START",
        help="earliest, latest, FILE:OFFSET, a GTID set, or a time.",
    ),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="START", help="FILE:OFFSET, a GTID set, or a time.")
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="STOP",
        help="Stop before a FILE:OFFSET, a GTID set or a time. A time is a commit time, in UTC if it has no zone. "
        "The same time for --since and --until selects what was committed at it.",
    ),
]
StopAtEnd = Annotated[
    bool, typer.Option("--stop-at-end", help="End where a live source's binlog ends now.")
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N.")]
Last = Annotated[
    int | None,
    typer.Option("--last", metavar="N", min=1, help="Only the last N, the newest first."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Threads = Annotated[
    int, typer.Option("--threads", metavar="N", min=1, help="Threads that decode files.")
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only changes with a row that meets this condition: "
        "\"status = 'new' AND total >= 10.5 OR note IS NULL\".",
    ),
]
RowKey = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="VALUE",
        help="The primary key; repeat it for each of its columns in order, or give COLUMN=VALUE. "
        "Bytes that are no text are x'00ff'.",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="Keys of encrypted binlogs: a MySQL keyring file or MariaDB's key file.",
    ),
]
AllowEmpty = Annotated[
    bool,
    typer.Option(
        "--allow-empty",
        help="A table, GTID, thread or range that matches nothing gives an empty answer; else it is an error.",
    ),
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
OnStatement = Annotated[
    Literal["error", "deliver"],
    typer.Option(
        "--on-statement",
        metavar="HOW",
        help="A row change that was logged as text: error stops, deliver prints the statement.",
    ),
]
OnUnknownTable = Annotated[
    Literal["error", "positional"] | None,
    typer.Option(
        "--on-unknown-table",
        metavar="HOW",
        help="A table whose column names are not proven: error stops, positional names them col_1, col_2 …. "
        "Default: error for a live source, positional for files.",
    ),
]
FullRows = Annotated[bool, typer.Option("--full-rows", help="Refuse row images that lack columns.")]
RecordLosses = Annotated[
    list[str] | None,
    typer.Option(
        "--record-losses",
        metavar="KIND",
        help="Count such losses with the position instead of stopping: statement, undecodable, "
        "incomplete_row, gtid_gap, unknown_table, xa_prepare, or all; repeatable.",
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="What tables looked like: the output of `replica-client schema export`.",
    ),
]
LetterCase = Annotated[
    int | None,
    typer.Option(
        "--lower-case-table-names",
        metavar="0|1|2",
        min=0,
        max=2,
        help="For files: this setting of the server that wrote them, which files do not record.",
    ),
]
IndexDirectory = Annotated[
    Path | None,
    typer.Option(
        "--index-directory", metavar="DIR", help="Where indexes are; else next to the files."
    ),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="A page to look at.")]

_ALL: Final = ""
OLD_WORDS: Final[dict[str, dict[str, str]]] = {
    _ALL: {"--tables": "--table", "--start": "--since"},
    "position": {"--table": "--position-table", "--from": "--owner"},
    "annotate": {"--count": "--limit"},
    "undo": {"--check": "--against"},
    "redo": {"--check": "--against"},
    "lake": {"--to": "--output"},
}
"""Words of earlier versions, by command, and the option that each is now; they work, and no help shows them."""


class Command(TyperCommand):
    """A command that also takes the older words of its options."""

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser, with the older words."""
        parser = super().make_parser(ctx)
        own = {word: one for one in self.get_params(ctx) for word in one.opts}
        parts = ctx.command_path.split()
        words = OLD_WORDS[_ALL] | {
            old: new for part in parts for old, new in OLD_WORDS.get(part, {}).items()
        }
        for old, new in words.items():
            if new in own and old not in own:
                option: Any = own[new]
                parser.add_option(
                    obj=option,
                    opts=[old],
                    dest=option.name,
                    action="append" if option.multiple else "store",
                    nargs=option.nargs,
                )
        return parser


def check_one_end(limit: int | None, last: int | None) -> None:
    """Refuse ``--limit`` with ``--last``.

    Raises:
        ConfigError: both are given.
    """
    if limit is not None and last is not None:
        raise ConfigError("give one of --limit and --last")


def decode_options(
    key_file: Path | None,
    verify_checksum: bool = True,
    invalid_text: Literal["strict", "replace", "bytes"] = "strict",
) -> DecodeOptions:
    """Return options of decoding with the keys of a file.

    Raises:
        OSError: the file cannot be read.
        ReplicaClientError: it holds no keys.
    """
    keys = read_keys(key_file.read_bytes()) if key_file else {}
    return DecodeOptions(verify_checksum=verify_checksum, keys=keys, invalid_text=invalid_text)
