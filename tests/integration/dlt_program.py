"""Brings a dlt destination to what a source has, in processes that can be killed; dlt is imported once.

python -m tests.integration.dlt_program SOURCE_URL DATABASE LOCKING duckdb|postgres DESTINATION DIRECTORY

Commands come on standard input, each with one line of answer: ``run`` begins a run and gives its process id,
``run TABLE`` one that dies when the destination has committed rows of a table, before dlt takes note of it,
``kill`` kills it, ``wait PID`` gives its exit status.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Any

import dlt
from dlt.common.destination.client import RunnableLoadJob

from replica_client.compat.dlt_tables import load


def main(
    url: str, database: str, locking: Any, kind: str, destination: str, directory: str
) -> None:
    """Do what standard input says."""
    os.environ["RUNTIME__LOG_LEVEL"] = "CRITICAL"
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    make = dlt.destinations.duckdb if kind == "duckdb" else dlt.destinations.postgres

    def bring() -> None:
        pipeline = dlt.pipeline(
            "shop", destination=make(destination), dataset_name="lake", pipelines_dir=directory
        )
        names = {"tables": f"{database}.*", "name": lambda database, table: table}
        load(pipeline, url, locking=locking, **names)

    pid = 0
    for line in sys.stdin:
        word, *table = line.split()
        if word == "run":
            pid = os.fork()
            if not pid:
                if table:
                    _die_behind(*table)
                _leave(bring)
            print(pid, flush=True)
        elif word == "kill":
            os.kill(pid, signal.SIGKILL)
            print(flush=True)
        else:
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _die_behind(table: str) -> None:
    """Let this process die when a job with rows of a table is done."""
    released = RunnableLoadJob._release

    def release(job: RunnableLoadJob, next_state: Any) -> None:
        if next_state == "completed" and job.load_table_name == table:
            os.kill(os.getpid(), signal.SIGKILL)
        released(job, next_state)

    RunnableLoadJob._release = release


def _leave(work: Any) -> None:
    """Work in a process that ends with it, and prints nothing where answers go."""
    os.dup2(2, 1)
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
