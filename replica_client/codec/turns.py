"""Threads that decode take turns at what needs the interpreter.

PyArrow lets the interpreter's lock go for each buffer and each array, for less than a microsecond. Where another
thread waits for it, each of these hands the interpreter over, which costs a hundred times as much. A thread that
decodes therefore has the turn, and gives it back only for what takes long without the interpreter: reading, and
decoding what was read. The others wait for the turn meanwhile, and not for the interpreter.

This module is compiled where that is possible and runs as it stands everywhere else.
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
# A thread that sleeps takes longer to wake than most turns last: it asks so often before it does.


@cython.final
@cython.cclass
class Turn:
    """A lock that one of several decoding threads has.

    As plain Python it is none: the interpreter's own lock is held then but for reading.
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
        """Wait until no other thread has it."""
        if cython.compiled:
            with cython.nogil:
                self._take()

    def give(self) -> None:
        """Let another thread have it."""
        if cython.compiled:
            self._give()


@contextmanager
def outside(turn: Turn | None) -> Iterator[None]:
    """Give a turn meanwhile; None: there is none to give."""
    if turn is None:
        yield
        return
    turn.give()
    try:
        yield
    finally:
        turn.take()
