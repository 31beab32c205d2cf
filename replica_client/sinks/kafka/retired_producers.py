"""Producers whose transaction could not be given up at once.

To free a producer that has a request for its transaction on the way ends the whole process (an assertion of librdkafka
2.16). Such a one lives on in a thread of its own until its brokers answer, or say that another took its place.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import KafkaException, Producer

_TRY_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 1.0


def give_up(producer: Producer, seconds: float) -> None:
    """End a producer's transaction, so that readers need not wait for its time to run out.

    Args:
        producer: with a transaction; not used any more.
        seconds: to wait for the brokers; afterwards it goes on without the caller.
    """
    if not _abort(producer, seconds):
        threading.Thread(
            target=_until_over, args=(producer,), name="replica-client-kafka", daemon=True
        ).start()


def _until_over(producer: Producer) -> None:
    while not _abort(producer, _TRY_SECONDS):
        time.sleep(_QUIET_SECONDS)


def _abort(producer: Producer, seconds: float) -> bool:
    """Whether no transaction is open any more."""
    try:
        producer.abort_transaction(seconds)
    except KafkaException as error:
        if not error.args[0].fatal():
            return False
        # Fenced, or refused for good: nothing more is asked, but for what is on the way.
        time.sleep(_QUIET_SECONDS)
    return True
