"""Reading a file at an offset while other threads decode.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

import os

import cython

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.posix.unistd import pread
else:
    from replica_client.protocol.codec.turns import Turn


def read_at(descriptor: cython.int, room: memoryview, offset: int, turn: Turn | None) -> int:
    """Read bytes of a file into memory.

    Args:
        descriptor: the file's descriptor.
        room: memory for the bytes.
        offset: offset of the first byte in the file.
        turn: the turn that this thread has, and gives up meanwhile; None: no other thread decodes.

    Returns:
        The number of bytes read; 0 only at the end of the file.

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
            # First the turn, then the interpreter's lock: the holder of the turn releases the lock
            # now and then.
            turn._take()
    if count < 0:
        raise OSError(number, os.strerror(number))
    return int(count)
