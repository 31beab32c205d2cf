from replica_client.protocol.binlog.layout cimport HEADER_SIZE, TYPE_OFFSET, EventClass
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.stream.fast.fast_path cimport FastPath
from replica_client.stream.fast.fast_path_tables cimport FastPathTables

cdef class EventFastPath(FastPath):
    cdef long long _taken_size
    cdef int _look(
        self, EventQueue events, Py_ssize_t index, long long offset, Py_ssize_t tail,
        Py_ssize_t inner_index) except -1
    cdef int _event(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, long long offset,
        Py_ssize_t tail, Py_ssize_t inner_index) except -1
