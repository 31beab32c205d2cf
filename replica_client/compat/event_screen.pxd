from replica_client.protocol.codec.crc cimport valid_until
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport load_le, same_bytes

cdef class _Model:
    cdef object kind
    cdef object facts
    cdef dict fields
    cdef Py_ssize_t width

cdef class EventScreen:
    cdef dict _tables
    cdef object _known
    cdef bytes _in_group
    cdef public bytes actions
    cdef public Py_ssize_t tail
    cdef public Py_ssize_t number_size
    cdef readonly long long log_pos
    cdef readonly long long group_start
    cdef readonly long long unplaced
    cdef bytes _last
    cdef dict _models
    cdef dict _kinds
    cdef dict _maps
    cdef bint _announced(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end) except -1
    cdef object _like(self, EventQueue queue, Py_ssize_t index, object found)
    cdef object _rows(self, EventQueue queue, Py_ssize_t index, object facts)
