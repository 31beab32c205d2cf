"""The workers of a pipeline: this process, or Spark's executors where there is much to do; and their failures."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from replica_client import errors
from replica_client.errors import (
    BinlogDecodeError,
    BinlogPurgedError,
    ConfigError,
    ReplicaClientError,
    ServerError,
    TlsError,
    TransportError,
)
from replica_client.lake.config import PipelineConfig
from replica_client.lake.maintenance import local_runner, run_work
from replica_client.lake.state_table import Work

Task = TypeVar("Task")
Result = TypeVar("Result")

_EXECUTORS: Final = "replica_client.lake.spark.executors"
_SPARK: Final = frozenset(("pyspark", "py4j"))


class Executors(Protocol):
    """Spark's executors."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run a function for each task and return the results in order."""

    def close(self) -> None:
        """End the session."""


class Workers:
    """Runs tasks here while they are small, and on Spark's executors otherwise.

    A session of Spark costs some 19 CPU seconds, which decode 200 MB of binlog here.

    Args:
        config: says which engine is wanted, and how small small is.
        name: of the application.
        say: takes a line about what is being done.
        verbose: show Spark's own messages.
    """

    def __init__(
        self,
        config: PipelineConfig,
        name: str,
        say: Callable[[str], None],
        *,
        verbose: bool = False,
    ) -> None:
        self._config, self._name, self._say, self._verbose = config, name, say, verbose
        self._spark: Executors | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._here = local_runner()

    def are_here(self, size: int, above: int = 0) -> bool:
        """Return whether work of this size is done in this process.

        Args:
            size: bytes of binlog, or of files to rewrite.
            above: bytes above which executors do it once Spark runs.
        """
        if self._config.engine == "auto":
            return size <= (self._config.local_below if self._spark is None else above)
        return self._config.engine == "local" or size <= above

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        size: int,
        stopped: threading.Event | None = None,
    ) -> list[Result]:
        """Run a function of a module for each task and return the results in order.

        Args:
            function: is imported by executors.
            tasks: can be pickled.
            size: bytes of all of them together.
            stopped: ends the work here after a task; the results are those of the tasks before.

        Raises:
            ReplicaClientError: the function failed.
        """
        if not tasks:
            return []
        if self.are_here(size):
            found = []
            for task in tasks:
                if stopped is not None and stopped.is_set():
                    break
                found.append(function(task))
            return found
        return self._executors().map(function, tasks)

    def rewrite(self, works: Sequence[Work]) -> list[Any]:
        """Rewrite files of tables."""
        if self.are_here(sum(work.size for work in works), self._config.lake.distribute_above):
            return self._here(works)
        return self._executors().map(run_work, works)

    def _executors(self) -> Executors:
        with self._lock:
            if self._spark is None:
                self._say("starting Spark")
                try:
                    module = importlib.import_module(_EXECUTORS)
                except ModuleNotFoundError as error:
                    if (error.name or "").partition(".")[0] not in _SPARK:
                        raise
                    raise ConfigError(
                        "this run is too large for one process and needs Spark, which is not installed: "
                        "pip install 'replica-client[spark]', or engine = \"local\" in [pipeline]"
                    ) from None
                started: Executors = module.start(self._config, self._name, verbose=self._verbose)
                if self._closed:
                    started.close()
                    raise PipelineError("the run was ended while Spark started")
                self._spark = started
            return self._spark

    def close(self) -> None:
        """End Spark, if it was started, and what executors do."""
        self._closed = True
        if self._spark is not None:
            self._spark.close()


_OURS = re.compile(r"replica_client\.errors\.(\w+): (.+)")
_PYTHON = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_MAX_TEXT: Final = 600
_TRANSIENT: Final = frozenset(
    ("ConnectError", "ConnectionLostError", "StreamEndedError", "TransportTimeoutError")
)
_SHUTDOWN: Final = frozenset((1053, 1317, 1927, 2006, 2013, 3169))
_ERROR_NUMBER: Final = re.compile(r"\b[0-9]{4}\b")
"""Errors of a server that shuts down, or whose session was killed."""

_SENTENCES: Final = (
    (
        re.compile(r"No module named '?([\w.]+)"),
        "the workers' Python lacks {0}: install replica_client there with its packages, or name another Python in "
        "PYSPARK_PYTHON",
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH.*?worker[^:]*: \(?([\d., ]+)\)?.*?driver[^:]*: \(?([\d., ]+)", re.DOTALL),
        "the workers' Python is {0}, the driver's {1}: name one of the driver's version in PYSPARK_PYTHON",
    ),
    (
        re.compile(r"Cannot run program \"([^\"]+)\""),
        "the workers' Python {0} is not there: name another one in PYSPARK_PYTHON",
    ),
    (
        re.compile(
            r"Answer from Java side is empty|Error while (?:sending|obtaining)|Connection refused|"
            r"SparkContext was shut down|network error|stopped SparkContext",
            re.IGNORECASE,
        ),
        "Spark's Java ended (killed? out of memory?): the next run goes on from the checkpoint",
    ),
)  # fmt: skip
"""Failures of Spark itself, by their text."""


class PipelineError(ReplicaClientError):
    """A query failed; the message is that of the error inside it.

    Attributes:
        is_transient: whether a retry may succeed.
        is_undecodable: whether the bytes of an event were the cause.
    """

    is_transient = False
    is_undecodable = False


class PurgedRangeError(PipelineError):
    """The source purged changes that were not read: only a new snapshot can go on from here.

    The message names the gap.
    """


def cause_of(error: BaseException) -> ReplicaClientError:
    """Return our own error inside one of Spark's, by its line; else Spark's message on one line."""
    if isinstance(error, BinlogPurgedError):
        return PurgedRangeError(str(error))
    if isinstance(error, ReplicaClientError):
        return error
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, None)
        message = message.strip()
        if kind is ConfigError:
            return ConfigError(message)
        if kind is BinlogPurgedError:
            return PurgedRangeError(message)
        found = PipelineError(message)
        found.is_undecodable = kind is not None and issubclass(kind, BinlogDecodeError)
        gone = not _SHUTDOWN.isdisjoint(map(int, _ERROR_NUMBER.findall(message)))
        found.is_transient = name in _TRANSIENT or (name == "ServerError" and gone)
        return found
    for pattern, sentence in _SENTENCES:
        if match := pattern.search(text):
            return PipelineError(sentence.format(*(one.strip() for one in match.groups())))
    python = _PYTHON.findall(text)
    if python:
        found = PipelineError(f"{python[-1][0]}: {python[-1][1]}"[:_MAX_TEXT])
    else:
        found = PipelineError(" ".join(text.split())[:_MAX_TEXT])
    found.is_transient = (
        "Python worker failed to connect back" in text
    )  # a machine that is too busy
    return found


def is_transient(error: BaseException) -> bool:
    """Return whether a run failed because of a lost connection or worker, so that a retry may succeed."""
    if isinstance(error, TransportError):
        return not isinstance(error, TlsError)
    if isinstance(error, ServerError):
        return error.errno in _SHUTDOWN
    cause = cause_of(error)
    return isinstance(cause, PipelineError) and cause.is_transient


def is_undecodable(error: BaseException) -> bool:
    """Return whether a run failed because the bytes of an event cannot be decoded."""
    cause = cause_of(error)
    return isinstance(cause, BinlogDecodeError) or getattr(cause, "is_undecodable", False)
