"""Memory for the columns of record batches."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import pyarrow as pa


@lru_cache(maxsize=1)
def _pool() -> Any:
    """Return the memory pool that the environment names, else jemalloc if PyArrow has it.

    Batches are allocated and freed in a few sizes. PyArrow's other default, mimalloc, spreads them
    over three times their size before it reuses memory, and the first use of a page is expensive.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        try:
            return pa.jemalloc_memory_pool()
        except NotImplementedError:
            pass
    return pa.default_memory_pool()


def allocate(size: int) -> Any:
    """Return a resizable buffer of ``size`` bytes with undefined contents."""
    return pa.allocate_buffer(size, memory_pool=_pool(), resizable=True)
