"""Memory for the columns of record batches."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
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


def number_array(numbers: Sequence[int]) -> pa.Array:
    """Return an array of ``int32`` without nulls.

    ``pyarrow.array`` of a list would import pandas where it is installed: 0.45 s and 55 MB.
    """
    buffer = pa.py_buffer(array("i", numbers))
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, buffer], 0)


def text_array(texts: Sequence[bytes]) -> pa.Array:
    """Return an array of ``string`` without nulls, also from bytes that are not UTF-8."""
    offsets = array("i", accumulate(map(len, texts), initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers, 0)
