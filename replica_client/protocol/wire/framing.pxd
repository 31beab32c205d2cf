# C types for framing.py when it is compiled.
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport copy_bytes, load_le, move_bytes

cdef class PacketFramer:
    cdef public int sequence
    cdef public object last
    cdef public bint semi_sync
    cdef public object ack_wanted
    cdef public object fault
    cdef readonly EventQueue queue
    cdef long long _max
    cdef bint _events
    cdef bint _probing
    cdef Py_ssize_t _length
    cdef Py_ssize_t _joined
    cdef bint _joining
    cdef int _scan(self) except -1
    cdef Py_ssize_t _header(self, unsigned char* data, Py_ssize_t at, Py_ssize_t ready) except -2
