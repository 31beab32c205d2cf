from replica_client.readers.group_lane cimport GroupLane
from replica_client.readers.lane_tables cimport LaneTable
from replica_client.readers.transaction cimport Transaction

cdef class RowLane(GroupLane):
    cdef list _taken
    cdef long long _taken_size
    cdef object _trail
    cdef Transaction _current
    cdef bytes _prefix_bytes
    cdef str _prefix
    cdef int _add(
        self, Transaction transaction, LaneTable table, const unsigned char* raw,
        Py_ssize_t at, Py_ssize_t end, long long offset, Py_ssize_t index) except -1
