"""Options that several commands have: one word, one metavar and one meaning for each, and the older words.

A command takes its options from here where one is listed; a test compares all commands with this module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperCommand

from replica_client.errors import ConfigError
from replica_client.options import OPTIONS, options_on
from replica_client.protocol.binlog.event import DecodeOptions


def flag(name: str) -> Any:
    """Return the flag of a declared option, for the annotation of a command's parameter."""
    option = OPTIONS[name]
    repeated = " Repeatable." if option.kind.type == list[str] else ""

    def checked(value: Any) -> Any:
        return None if value is None else option.read(value, "flag")

    return typer.Option(
        option.surfaces["flag"],
        metavar=option.kind.metavar,
        help=option.said(option.help, "flag") + repeated,
        callback=checked,
    )


def with_declared(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with a flag for each declared option that its own parameters lack.

    The command gets their values by the options' names in Python, as further keywords.
    """
    own = set(inspect.signature(command).parameters)
    more: dict[str, Any] = {}
    for word, option in options_on("flag").items():
        if option.target and not own & {option.name, word[2:].replace("-", "_")}:
            kind: Any = option.kind.type if option.default is not None else option.kind.type | None
            more[option.name] = Annotated[kind, flag(option.name)]
    return with_flags(**more)(command)


def with_flags(**annotations: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command further parameters in place of its ``**keywords``.

    Args:
        annotations: of the parameters by name; a declared option has its default, another None.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        for name, annotation in annotations.items():
            default = OPTIONS[name].default if name in OPTIONS else None
            own.append(
                Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )

        @wraps(command)
        def extended(**given: Any) -> None:
            command(**given)

        extended.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        extended.__annotations__ = {one.name: one.annotation for one in own}
        return extended

    return decorate


def of_files(given: Mapping[str, Any], reader: Callable[..., Any]) -> dict[str, Any]:
    """Return the declared options of a command that a reader of files takes.

    Raises:
        ConfigError: one is given that is for a live source alone.
    """
    taken = inspect.signature(reader).parameters
    for name, value in given.items():
        if name not in taken and name != "allow_empty" and value != OPTIONS[name].default:
            raise ConfigError(
                f"{OPTIONS[name].surfaces['flag']} is for a live source: leave it out with files"
            )
    return {name: value for name, value in given.items() if name in taken}


Tables = Annotated[list[str] | None, flag("tables")]
Exclude = Annotated[list[str] | None, flag("exclude")]
Begin = Annotated[str | None, flag("start")]
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
StopAtEnd = Annotated[bool, flag("stop_at_end")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N.")]
Last = Annotated[
    int | None,
    typer.Option("--last", metavar="N", min=1, help="Only the last N, the newest first."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Threads = Annotated[int, flag("threads")]
Where = Annotated[str | None, flag("where")]
RowKey = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="VALUE",
        help="The primary key; repeat it for each of its columns in order, or give COLUMN=VALUE. "
        "Bytes that are not text are x'00ff'.",
    ),
]
KeyFile = Annotated[Path | None, flag("key_file")]
AllowEmpty = Annotated[bool, flag("allow_empty")]
InvalidText = Annotated[Literal["strict", "replace", "bytes"], flag("invalid_text")]
OnUnknownTable = Annotated[Literal["error", "positional"] | None, flag("on_unknown_table")]
RecordLosses = Annotated[list[str] | None, flag("record_losses")]
SchemaFile = Annotated[Path | None, flag("schema")]
LetterCase = Annotated[int | None, flag("lower_case_table_names")]
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


_ARCHIVE: Final = {
    "index_directory": IndexDirectory,
    "schema": SchemaFile,
    "lower_case_table_names": LetterCase,
    "key_file": KeyFile,
}
with_archive = with_flags(**_ARCHIVE)
"""A decorator of commands that open an archive."""
with_archive_texts = with_flags(**_ARCHIVE, invalid_text=InvalidText)
"""A decorator of commands that print the values of an archive."""


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
        ReplicaClientError: the file cannot be read, or holds no keys.
    """
    from replica_client.protocol.binlog.encryption import read_keys  # few need keys
    from replica_client.storage.kept_file import read_key, read_key_file

    data = read_key_file(key_file, "--key-file") if key_file else b""
    keys = {} if not data or read_key(data) is not None else read_keys(data)
    return DecodeOptions(verify_checksum=verify_checksum, keys=keys, invalid_text=invalid_text)
