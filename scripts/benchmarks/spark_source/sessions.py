"""Sessions in processes of their own: a Java process keeps the number of its cores."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException

from replica_client.lake.spark.spark_session import make_session


def in_session(
    master: str, work: Callable[..., Any], *arguments: Any, cores: int | None = None
) -> Any:
    """What ``work(spark, *arguments)`` gives in a new session; ``cores``: it has no more of them."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_run, (master, work, arguments, cores))


def _run(
    master: str, work: Callable[..., Any], arguments: tuple[Any, ...], cores: int | None
) -> Any:
    if cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    # Spark's Python processes have to find these modules, too.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    session = make_session("bench", master=master)
    try:
        return work(session, *arguments)
    except PySparkException as error:
        raise RuntimeError(str(error)) from None  # Spark's own cannot be sent
    finally:
        session.stop()
