"""Memory for the columns of record batches."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import pyarrow as pa


@lru_cache(maxsize=1)
def _pool() -> Any:
    """What the environment asks for, else jemalloc where PyArrow has it.

    Batches come and go in the same few sizes. PyArrow's other default, mimalloc, spreads them over
    three times their size before it uses memory again, and a page that a process touches first is dear.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        try:
            return pa.jemalloc_memory_pool()
        except NotImplementedError:
            pass
    return pa.default_memory_pool()


def allocate(size: int) -> Any:
    """A buffer of ``size`` bytes that can be resized; what stands in it is not defined."""
    return pa.allocate_buffer(size, memory_pool=_pool(), resizable=True)
