"""``changes``, ``events`` and ``check`` of files, and ``changes`` of a source, without other options than ``--json``.

Importing the option parser costs more than reading a small file: 0.42 s against 0.33 s, CPython 3.11.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.cli.sources import binlog_paths, is_live
from replica_client.cli.start import collect_from_here
from replica_client.storage.location import is_url


def run_plain(words: Sequence[str]) -> bool:
    """Run such a command; False where it is another.

    Raises:
        ReplicaClientError: a file or the source is faulty.
        OSError: a file cannot be read.
    """
    name, arguments = words[0] if words else "", words[1:]
    sources = [word for word in arguments if word != "--json"]
    if not sources or any(word.startswith("-") for word in sources):
        return False
    json = len(sources) < len(arguments)
    if name == "changes" and len(sources) == 1 and is_live(sources[0]):
        _follow(sources[0], json=json)
        return True
    if any(map(is_url, sources)):
        return False
    if name == "changes":
        _changes(sources, json=json)
    elif name == "events":
        _events(sources, json=json)
    elif name == "check":
        _check(sources, json=json)
    else:
        return False
    return True


def _follow(url: str, *, json: bool) -> None:
    from replica_client.cli.acknowledging import ChosenChanges
    from replica_client.cli.row_output import RowOutput
    from replica_client.cli.source_changes import write_source_changes
    from replica_client.stream.live.connect import connect
    from replica_client.stream.live.stream_options import ReconnectPolicy

    collect_from_here()
    # Commits are an interval apart already.
    stream = connect(url, save_interval=0, reconnect=ReconnectPolicy(first_attempts=1))
    write_source_changes(stream, ChosenChanges(RowOutput(json=json)), url)


def _changes(sources: Sequence[str], *, json: bool) -> None:
    from replica_client.cli.acknowledging import ChosenChanges
    from replica_client.cli.file_changes import file_progress, write_file_changes
    from replica_client.cli.row_output import RowOutput
    from replica_client.stream.files.binlog_file import open_binlog

    collect_from_here()
    paths = binlog_paths(sources)
    chosen = ChosenChanges(RowOutput(json=json))
    with file_progress(paths, shares_terminal=True) as progress:
        write_file_changes(open_binlog(paths), chosen, progress=progress)


def _events(sources: Sequence[str], *, json: bool) -> None:
    from replica_client.cli.event_output import EventOutput, write_file_events
    from replica_client.stream.files.binlog_file import open_binlog

    collect_from_here()
    write_file_events(open_binlog(binlog_paths(sources)), EventOutput(json=json))


def _check(sources: list[str], *, json: bool) -> None:
    from replica_client.cli.file_check import check_files
    from replica_client.protocol.binlog.event import DecodeOptions

    collect_from_here()
    check_files(sources, DecodeOptions(), json=json)
