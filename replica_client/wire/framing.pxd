# C types for framing.py when it is compiled.
cimport cython

cdef class PacketFramer:
    cdef public int sequence
    cdef public bytes last
    cdef public bint semi_sync
    cdef public object ack_wanted
    cdef public object fault
    cdef long long _max
    cdef bint _events
    cdef bint _probing
    cdef bytes _head
    cdef bytearray _body
    cdef long long _missing
    cdef bint _joining

    @cython.locals(
        out=list, data=bytes, at=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t, number=int
    )
    cpdef list feed(self, object buffer, Py_ssize_t size=*)
