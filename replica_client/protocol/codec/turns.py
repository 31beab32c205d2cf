"""A lock with which decoding threads take turns at work that needs the interpreter.

PyArrow releases the GIL for each buffer and each array, for less than a microsecond. If another
thread waits for the GIL, every release switches threads, which costs a hundred times as much. A
decoding thread therefore holds a :class:`Turn`, and releases it only for long work without the GIL:
reading, and decoding the bytes read. The other threads wait for the turn instead of the GIL.

This module is compiled where that is possible; elsewhere it runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cython

if cython.compiled:
    from cython.cimports.cpython.pythread import (
        NOWAIT_LOCK,
        WAIT_LOCK,
        PyThread_acquire_lock,
        PyThread_allocate_lock,
        PyThread_free_lock,
        PyThread_release_lock,
    )

_TRIES = cython.declare(cython.int, 4000)
# Waking a sleeping thread takes longer than most turns last, so a thread tries this often first.


@cython.final
@cython.cclass
class Turn:
    """A lock held by one of several decoding threads.

    In plain Python it does nothing: decoding holds the GIL then, except while reading.
    """

    if cython.compiled:

        def __cinit__(self) -> None:
            self._lock = PyThread_allocate_lock()

        def __dealloc__(self) -> None:
            PyThread_free_lock(self._lock)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _take(self) -> cython.void:
        _tries: cython.int
        for _tries in range(_TRIES):
            if PyThread_acquire_lock(self._lock, NOWAIT_LOCK):
                return
        PyThread_acquire_lock(self._lock, WAIT_LOCK)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _give(self) -> cython.void:
        PyThread_release_lock(self._lock)

    def take(self) -> None:
        """Wait for the lock and take it."""
        if cython.compiled:
            with cython.nogil:
                self._take()

    def give(self) -> None:
        """Release the lock."""
        if cython.compiled:
            self._give()


@contextmanager
def outside(turn: Turn | None) -> Iterator[None]:
    """Release a turn inside the block; do nothing for None."""
    if turn is None:
        yield
        return
    turn.give()
    try:
        yield
    finally:
        turn.take()
