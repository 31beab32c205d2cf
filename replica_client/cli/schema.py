"""``replica-client schema``: what tables looked like, by position."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from replica_client.cli.flags import AllowEmpty, Command, Exclude, Json, LetterCase, Tables
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, message
from replica_client.cli.reading import ALLOW_EMPTY_HINT, print_losses
from replica_client.cli.sources import binlog_paths, is_live, live_source, no_letter_case
from replica_client.errors import ConfigError, SchemaError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import Unverified
from replica_client.schema.history import STATE_KEY, LogPosition, SchemaHistory, Version
from replica_client.schema.model import TableModel, describe
from replica_client.storage.location import is_url
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.live.binlog_scan import BinlogScan
from replica_client.stream.live.live_schema import read_source
from replica_client.stream.live.stream_options import ReconnectPolicy
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.position.stores.object import position_file as open_position_file
from replica_client.stream.transactions.arguments import read_schema_file
from replica_client.stream.transactions.loss_watch import reading_state_of
from replica_client.stream.transport.connect_options import parse_url

EXAMPLE = "replica-client schema export mysql://repl@db1/ > schema.json"

app = typer.Typer(
    name="schema",
    help="What tables looked like, by position in the binlog.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=f"Example:  {EXAMPLE}",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FROM = "A position file, an export, binlog paths in order, or one URL."
Sources = Annotated[list[str], typer.Argument(metavar="FROM", help=_FROM)]
PositionFile = Annotated[
    str, typer.Option("--position-file", metavar="FILE", help="The position file to change.")
]


@app.command(
    cls=Command,
    epilog="Example:  replica-client schema show position.json --table 'shop.*'",
    short_help="Print the versions of tables.",
)
def show(
    sources: Sources,
    tables: Tables = None,
    exclude: Exclude = None,
    lower_case_table_names: LetterCase = None,
    allow_empty: AllowEmpty = False,
    json: Json = False,
) -> None:
    """Print every version of every table: since when it is so, and from where that is known.

    Of a position file also the losses that it carries (--record-losses).
    """
    history = load(sources, lower_case_table_names)
    selection = Selection(tables, exclude).for_server(history.lower_case_names)
    if not allow_empty:
        selection.check_matched(history, hint=ALLOW_EMPTY_HINT)
    lines = Lines()
    for name in history.tables():
        if not selection.wants(*name):
            continue
        for version in history.versions(name):
            if json:
                lines.json(_json(name, version))
            else:
                lines.line(_text(name, version))
    checkpoint = _checkpoint(sources)
    if checkpoint is not None:
        print_losses(checkpoint.state, lines, json=json)


@app.command(
    cls=Command,
    epilog=f"Example:  {EXAMPLE}",
    short_help="Print the history as JSON, for import or --schema.",
)
def export(sources: Sources, lower_case_table_names: LetterCase = None) -> None:
    """Print the whole history as one JSON document."""
    history = load(sources, lower_case_table_names)
    Lines().json_text(json_module.dumps(history.to_json(), ensure_ascii=False, indent=1))


@app.command(
    "import",
    cls=Command,
    epilog="Example:  replica-client schema import schema.json --position-file position.json",
    short_help="Put an exported history into a position file.",
)
def import_(
    export_file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` printed.")],
    position_file: PositionFile,
) -> None:
    """Put an exported history into a position file, in the place of the one that it has.

    What begins behind the saved position is left out: it comes again with the binlog.
    """
    _replace(read_schema_file(export_file), position_file)


@app.command(
    cls=Command,
    epilog="Example:  replica-client schema rebuild binlog.0000* --position-file position.json",
    short_help="Rebuild the history of a position file.",
)
def rebuild(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Binlog paths in order, or one URL.")
    ],
    position_file: PositionFile,
    lower_case_table_names: LetterCase = None,
) -> None:
    """Rebuild the history of a position file, from binlog files or from a live source.

    From files: by their statements, up to the saved position. From a live source: its tables as they
    are now, which hold only when no statement changed a table since the saved position; else nothing
    is written.
    """
    store = open_position_file(position_file)
    saved = store.load()
    if saved is None:
        raise ConfigError(f"{position_file} does not exist")
    url = live_source(sources)
    if url is None:
        reader = open_binlog(
            binlog_paths(sources),
            stop=saved if saved.file else None,
            lower_case_table_names=lower_case_table_names,
        )
        for _ in reader.transactions():
            pass
        history = reader.history
    else:
        no_letter_case(lower_case_table_names)
        history = _proven(url, saved)
    _replace(history, position_file)


def load(sources: list[str], lower_case_table_names: int | None = None) -> SchemaHistory:
    """Return the history that a position file, an export, binlog files or a source give.

    Args:
        sources: those.
        lower_case_table_names: of the server that wrote binlog files.

    Raises:
        SchemaError: it is damaged.
        ConfigError: a position file without one.
    """
    path = _json_path(sources)
    if path is not None:
        try:
            document = json_module.loads(path.read_bytes())
        except ValueError as error:
            raise SchemaError(f"{path} is not JSON: {error}") from error
        if isinstance(document, dict) and document.get("format") == "replica-client-position":
            checkpoint = _checkpoint(sources)
            if checkpoint is None or STATE_KEY not in checkpoint.state:
                raise ConfigError(f"{path} holds a position, and no schema history")
            with reading_state_of(FilePositionStore(path)):
                return SchemaHistory.from_state(checkpoint.state[STATE_KEY])
        return read_schema_file(path)
    url = live_source(sources)
    if url is not None:
        no_letter_case(lower_case_table_names)
        return _of_source(url)
    reader = open_binlog(binlog_paths(sources), lower_case_table_names=lower_case_table_names)
    for _ in reader.transactions():
        pass
    return reader.history


def _checkpoint(sources: list[str]) -> Checkpoint | None:
    """Return the history of a position file; None for anything else."""
    path = _json_path(sources)
    if path is None:
        return None
    document = json_module.loads(path.read_bytes())
    if not isinstance(document, dict) or document.get("format") != "replica-client-position":
        return None
    return FilePositionStore(path).load_checkpoint()


def _json_path(sources: list[str]) -> Path | None:
    """Return the only path, if it is a file of JSON."""
    if len(sources) > 1 or is_live(sources[0]) or is_url(sources[0]) or Path(sources[0]).is_dir():
        return None
    with Path(sources[0]).open("rb") as stream:
        return Path(sources[0]) if stream.read(1) == b"{" else None


def _of_source(url: str) -> SchemaHistory:
    found: list[SchemaHistory] = []

    async def read() -> None:
        policy = ReconnectPolicy(attempts=3)  # somebody looks at the screen
        found.append((await read_source(parse_url(url), DecodeOptions(), policy=policy))[0])

    run_async(read())
    return found[0]


def _proven(url: str, saved: Position) -> SchemaHistory:
    """Return the tables of a source at a position, if nothing changed them since.

    Raises:
        SchemaError: something did.
    """
    if not saved.file:
        raise SchemaError(f"the saved position {saved} has no file to compare the source with")
    history = _of_source(url)
    scan = BinlogScan(parse_url(url), DecodeOptions())
    run_async(scan.extend(saved.file, saved.offset))
    if scan.touches.all:
        raise SchemaError(
            f"{parse_url(url).address}: a statement at {scan.touches.all[0].position} changed tables since the saved "
            f"position; give the binlog files from their first one on instead"
        )
    return history.moved(LogPosition.of(saved.file, saved.offset - 1))


def _replace(history: SchemaHistory, position_file: str) -> None:
    store = open_position_file(position_file)
    checkpoint = store.load_checkpoint()
    if checkpoint is None:
        raise ConfigError(f"{position_file} does not exist")
    position = checkpoint.position
    if position.file:
        history.rewind(position.file, position.offset)
    store.save(position, {**checkpoint.state, STATE_KEY: history.to_parts()})
    message(f"{len(history.known_tables())} tables at {position}")


def _json(name: tuple[str, str], version: Version) -> dict[str, object]:
    state = version.state
    found: dict[str, object] = {
        "database": name[0],
        "table": name[1],
        "since": str(version.since) if version.since.file else None,
        "origin": version.origin,
        "exists": isinstance(state, TableModel),
        "columns": None,
        "unverified": state.reason if isinstance(state, Unverified) else None,
    }
    if isinstance(state, TableModel):
        found["columns"] = [{"name": one.name, "type": describe(one)} for one in state.columns]
        found["primary_key"] = [column for column, _ in state.primary_key]
    return found


def _text(name: tuple[str, str], version: Version) -> str:
    state = version.state
    if isinstance(state, TableModel):
        what = "(" + ", ".join(f"{one.name} {describe(one)}" for one in state.columns) + ")"
    elif isinstance(state, Unverified):
        what = f"to be verified: {state.reason}"
    else:
        what = "dropped"
    since = str(version.since) if version.since.file else "start"
    return f"{since:<24}  {version.origin:<18}  {'.'.join(name)}  {what}"
