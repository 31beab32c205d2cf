from replica_client.protocol.binlog.layout cimport (
    FLAGS_OFFSET, HEADER_SIZE, NEXT_POSITION_OFFSET, SERVER_ID_OFFSET, TIMESTAMP_OFFSET, TYPE_OFFSET, EventClass)
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport load_le
from replica_client.stream.fast.fast_path cimport FastPath
from replica_client.stream.fast.fast_path_tables cimport FastPathTables

cdef class EventFastPath(FastPath):
    cdef long long _most_taken
    cdef long long _taken_size
    cdef int _look(
        self, EventQueue events, Py_ssize_t index, long long offset, Py_ssize_t tail,
        Py_ssize_t inner_index) except -1
    cdef int _event(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, long long offset,
        Py_ssize_t tail, Py_ssize_t inner_index) except -1

cdef class EventObjects(EventFastPath):
    cdef list _objects
