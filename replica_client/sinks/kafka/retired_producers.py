"""Producers whose transaction could not be aborted at once.

Freeing a producer while a request for its transaction is in flight ends the whole process (an
assertion of librdkafka 2.16). Such a producer is kept in a thread until its brokers answer, or say
that another producer fenced it.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import KafkaException, Producer

_TRY_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 1.0


def give_up(producer: Producer, seconds: float) -> None:
    """Abort a producer's transaction, so that readers need not wait for its timeout.

    Args:
        producer: a producer with an open transaction, which the caller no longer uses.
        seconds: time to wait for the brokers; then a thread goes on trying.
    """
    if not _abort(producer, seconds):
        threading.Thread(
            target=_until_over, args=(producer,), name="replica-client-kafka", daemon=True
        ).start()


def _until_over(producer: Producer) -> None:
    while not _abort(producer, _TRY_SECONDS):
        time.sleep(_QUIET_SECONDS)


def _abort(producer: Producer, seconds: float) -> bool:
    """Abort the transaction, and return whether none is open any more."""
    try:
        producer.abort_transaction(seconds)
    except KafkaException as error:
        if not error.args[0].fatal():
            return False
        # Fenced, or refused for good: only wait for requests that are in flight.
        time.sleep(_QUIET_SECONDS)
    return True
