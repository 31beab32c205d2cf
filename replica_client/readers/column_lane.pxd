from replica_client.readers.group_lane cimport GroupLane
from replica_client.readers.lane_tables cimport LaneTable

cdef class ColumnLane(GroupLane):
    cdef object _batches
    cdef list _ready
    cdef dict _last_tables
    cdef long long _switch
    cdef str _named
    cdef bytes _file_text
    cdef bytes _version_text
    cdef int _append(
        self, LaneTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
        long long offset, long long start, Py_ssize_t index, long long timestamp_us, bytes gtid,
        long long gtid_number) except -1
