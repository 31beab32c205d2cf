"""Options of a stream, and rules for retries."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import field, replace
from itertools import count
from typing import Final, TypeVar

from replica_client.errors import (
    AccessDeniedError,
    BinlogDisabledError,
    BinlogReadError,
    ConfigError,
    ReplicaClientError,
    ServerError,
    TlsError,
    TransportError,
)
from replica_client.options import check_argument
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.server_errors import TRANSIENT_ERRORS, UNKNOWABLE_ERRORS
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.stream.transactions.arguments import Start
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connection import DEFAULT_HEARTBEAT_PERIOD

_LOG = logging.getLogger("replica_client.stream")
_Answer = TypeVar("_Answer")
_MOST_REFUSALS: Final = 5
"""Number of errors not known to be transient after which a question is given up."""


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """Jittered exponential backoff, for the first connection and for those after a loss.

    Each try is logged as a warning with its reason.

    Attributes:
        first_delay: seconds before the second try; the first is made at once.
        max_delay: seconds that a delay grows to.
        attempts: tries without any event received in between before giving up; 0: no reconnect; None: no end.
        first_attempts: tries to connect for the first time; None: as ``attempts``, but one at least. A source that
            refuses, a host name that does not exist and TLS that fails are not tried again.

    Examples:
        >>> never_wait = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)
        >>> with rc.follow(url, start="earliest", stop_at_end=True, reconnect=never_wait) as stream:
        ...     next(stream.changes()).table
        'customers'
    """

    first_delay: float = 0.2
    max_delay: float = 15.0
    attempts: int | None = None
    first_attempts: int | None = None

    def __post_init__(self) -> None:
        for name in ("first_delay", "max_delay", "attempts", "first_attempts"):
            if (value := getattr(self, name)) is not None:
                check_argument(name, value)
        if self.max_delay < self.first_delay:
            raise ConfigError("reconnect: max_delay must not be below first_delay")
        if self.attempts is not None and self.attempts < 0:
            raise ConfigError(f"reconnect: attempts {self.attempts}: 0 or more, or None for no end")
        if self.first_attempts is not None and self.first_attempts < 1:
            raise ConfigError(
                f"reconnect: first_attempts {self.first_attempts}: 1 or more, or None for no end"
            )

    def delays(self, generator: random.Random | None = None) -> Iterator[float]:
        """Yield the seconds to wait before each try: full jitter below a bound that doubles."""
        return self._delays(self.attempts, generator)

    def first_delays(self, generator: random.Random | None = None) -> Iterator[float]:
        """Yield the seconds to wait before each try of the first connection."""
        attempts = self.first_attempts
        if attempts is None and self.attempts is not None:
            attempts = max(self.attempts, 1)
        return self._delays(attempts, generator)

    def _delays(self, attempts: int | None, generator: random.Random | None) -> Iterator[float]:
        chance = generator or random.Random()
        bound = self.first_delay
        for attempt in count() if attempts is None else range(attempts):
            yield 0.0 if attempt == 0 else chance.uniform(bound / 2, bound)
            if attempt:
                bound = min(self.max_delay, bound * 2)


async def asked(
    question: Callable[[], Awaitable[_Answer]],
    what: str,
    policy: ReconnectPolicy | None = None,
    *,
    is_wanted: Callable[[], bool] = lambda: True,
    goes_on: Callable[[ReplicaClientError], bool] = lambda error: False,
) -> _Answer:
    """Ask a source's catalogue until it answers: the one rule for answers that will be relied upon.

    A failure is no answer: it is logged and the question is asked again, on a connection of its
    own. Errors that a retry cannot change are raised at once: a refusal for a privilege, a refused
    login, a binlog that is gone.

    Args:
        question: opens a connection and asks.
        what: description of the question for a log line.
        policy: delays between two tries; None: the default, with 20 tries.
        is_wanted: returns whether the answer is still wanted.
        goes_on: returns whether to retry after an error that would be raised at once.

    Raises:
        ServerError: the source refuses, or failed too often.
        TransportError: the connection failed too often.
    """
    delays = (policy or ReconnectPolicy(attempts=20)).delays()
    refusals = 0
    while True:
        try:
            return await question()
        except (TransportError, ServerError) as error:
            if not may_be_asked_again(error) and not goes_on(error):
                raise
            if isinstance(error, ServerError) and error.errno not in TRANSIENT_ERRORS:
                refusals += 1
            delay = next(delays, None)
            if delay is None or refusals >= _MOST_REFUSALS or not is_wanted():
                raise
            _LOG.warning("%s failed: %s; again in %.1f s", what, str(error), delay)
        await asyncio.sleep(delay)


def may_be_asked_again(error: ReplicaClientError) -> bool:
    """Return whether a question that failed with an error may be answered on a retry."""
    if isinstance(error, ServerError):
        if error.errno in TRANSIENT_ERRORS:
            return True
        is_answer = isinstance(error, AccessDeniedError | BinlogDisabledError | BinlogReadError)
        return not is_answer and error.errno not in UNKNOWABLE_ERRORS
    return isinstance(error, TransportError) and not isinstance(error, TlsError)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream.

    Attributes:
        start: where to start when the position store is empty.
        stop_at_end: end at the end of the source's binlog instead of waiting.
        server_id: ours, unique among the source's replicas; None: a random one of 32 bits.
        heartbeat_period: seconds of silence after which the source sends a heartbeat.
        read_timeout: seconds without a byte after which the connection is dead; None: three
            heartbeats.
        semi_sync: ask for semi-synchronous replication; the stream's ``acknowledge`` answers it.
        reconnect: when and how often to reconnect.
        assembly: how transactions are put together.
        decode: how values are decoded.
        schema: definitions at the start; None: what the source and its binlog prove.
        transform: transforms of everything that is delivered; None: no transform.
        allow_empty: accept patterns of tables that match nothing, after a whole finite read and at
            the start of an endless one.
    """

    start: Start = "latest"
    stop_at_end: bool = False
    server_id: int | None = None
    heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD
    read_timeout: float | None = None
    semi_sync: bool = False
    reconnect: ReconnectPolicy = field(default=ReconnectPolicy(attempts=20, first_attempts=1))
    assembly: AssemblyOptions = field(default_factory=lambda: AssemblyOptions(Selection()))
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    schema: SchemaHistory | None = None
    transform: Transformer | None = None
    allow_empty: bool = True

    def __post_init__(self) -> None:
        if self.server_id is not None and not 0 < self.server_id < 1 << 32:
            raise ConfigError(f"server_id {self.server_id} is not between 1 and 4294967295")
        if self.transform is not None and self.transform.hides:
            object.__setattr__(self, "assembly", replace(self.assembly, withholds_texts=True))
