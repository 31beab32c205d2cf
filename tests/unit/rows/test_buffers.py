"""Where the memory of batches comes from."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow as pa
import pytest

_ALLOCATE = """
import pyarrow as pa
from replica_client.rows.arrow_types import allocate
buffer = allocate(1 << 20)
assert buffer.size == 1 << 20
print([name for name in pa.supported_memory_backends()
       if getattr(pa, name + "_memory_pool")().bytes_allocated() >= 1 << 20])
"""


@pytest.mark.parametrize("asked", [None, "system"])
def test_memory_is_of_the_pool_that_is_asked_for_or_jemalloc(asked: str | None) -> None:
    if asked is None and "jemalloc" not in pa.supported_memory_backends():
        pytest.skip("this PyArrow has no jemalloc")
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    if asked is not None:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = asked
    command = [sys.executable, "-c", _ALLOCATE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([asked or "jemalloc"])
