"""Reads a file at an offset while other threads decode.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

import os

import cython

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.posix.unistd import pread
    from cython.cimports.replica_client.codec.turns import Turn
else:
    from replica_client.codec.turns import Turn


def read_at(descriptor: cython.int, room: memoryview, offset: int, turn: Turn | None) -> int:
    """Read bytes of a file into memory.

    Args:
        descriptor: of the file.
        room: where they go.
        offset: of the first one in the file.
        turn: this thread has it, and gives it meanwhile; None: no other thread decodes.

    Returns:
        how many bytes there were, 0 at the end of the file only.

    Raises:
        OSError: the file cannot be read.
    """
    if not cython.compiled:
        return os.preadv(descriptor, [room], offset)
    memory: cython.p_uchar = cython.cast(cython.p_uchar, PyMemoryView_GET_BUFFER(room).buf)
    begin: cython.longlong = offset
    size: cython.Py_ssize_t = len(room)
    count: cython.Py_ssize_t
    number: cython.int = 0
    with cython.nogil:
        if turn is not None:
            turn._give()
        while True:
            count = pread(descriptor, memory, size, begin)
            if count >= 0:
                break
            number = errno
            if number != EINTR:
                break
        if turn is not None:
            # Before the interpreter, which who has the turn lets go now and then.
            turn._take()
    if count < 0:
        raise OSError(number, os.strerror(number))
    return int(count)
