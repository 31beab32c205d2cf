"""``changes``, ``events`` and ``check`` of files without other options than ``--json``.

What reads options takes longer to import than a small file takes to read.
"""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.cli.sources import binlog_paths
from replica_client.storage.location import is_url


def run_on_files(words: Sequence[str]) -> bool:
    """Run such a command; False where it is another.

    Raises:
        ReplicaClientError: a file is faulty.
        OSError: a file cannot be read.
    """
    name, arguments = words[0] if words else "", words[1:]
    sources = [word for word in arguments if word != "--json"]
    if not sources or any(word.startswith("-") or is_url(word) for word in sources):
        return False
    json = len(sources) < len(arguments)
    if name == "changes":
        from replica_client.cli.chosen_changes import ChosenChanges
        from replica_client.cli.file_changes import write_file_changes
        from replica_client.cli.file_progress import file_progress
        from replica_client.cli.row_output import RowOutput
        from replica_client.readers.files.binlog_file import open_binlog

        paths = binlog_paths(sources)
        chosen = ChosenChanges(RowOutput(json=json))
        with file_progress(paths, shares_terminal=True) as progress:
            write_file_changes(open_binlog(paths), chosen, progress=progress)
        return True
    if name == "events":
        from replica_client.cli.event_output import EventOutput, write_file_events
        from replica_client.readers.files.binlog_file import open_binlog

        write_file_events(open_binlog(binlog_paths(sources)), EventOutput(json=json))
        return True
    if name == "check":
        from replica_client.binlog.options import DecodeOptions
        from replica_client.cli.file_check import check_files

        check_files(sources, DecodeOptions(), json=json)
        return True
    return False
