from replica_client.codec.event_queue cimport EventQueue
from replica_client.rows.columnar cimport ColumnarRows
from replica_client.rows.runs cimport EventRuns

cdef class LaneTable:
    cdef bytes content
    cdef object table_map
    cdef object builder
    cdef ColumnarRows rows
    cdef EventRuns runs
    cdef Py_ssize_t column_count
    cdef bytes before
    cdef bytes after
    cdef bytes gtid
    cdef bytes file
    cdef long long era
    cdef long long number
    cdef long long turn
    cdef long long switch
    cdef int file_text
    cdef int version_text
    cdef int gtid_text

cdef class GroupLane:
    cdef object _feed
    cdef object _assembler
    cdef object _batches
    cdef bint _in_file
    cdef object _format
    cdef bint _works
    cdef bint _full_rows
    cdef unsigned long long _rows_codes
    cdef bint _verify
    cdef Py_ssize_t _tail
    cdef long long _max_event_size
    cdef object _revision
    cdef object _generation
    cdef dict _tables
    cdef dict _by_id
    cdef list _near
    cdef long long _turn
    cdef dict _last_tables
    cdef long long _switch
    cdef list _ready
    cdef readonly bint took
    cdef readonly bint incomplete
    cdef list _gtids
    cdef object _fault
    cdef bytes _sid
    cdef long long _gtid_first
    cdef long long _gtid_last
    cdef object _domain
    cdef str _file
    cdef str _version_prefix
    cdef bytes _file_bytes
    cdef bytes _version_bytes
    cdef bytes _gtid_bytes
    cdef bint _wanted
    cdef bint _takes_payloads
    cdef long long _part_size
    cdef EventQueue _inner
    cdef Py_ssize_t _inside
    cdef bint _look_inside(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef long long _end
    cdef long long _verified
    cdef long long _verified_begin
    cdef Py_ssize_t _count(self, EventQueue events, Py_ssize_t first, long long offset) except -1
    cdef bint _opens(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code) except -1
    cdef bint _fields_ok(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _begins(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef LaneTable _near_table(self, long long number)
    cdef LaneTable _known(self, long long number)
    cdef LaneTable _table_of(
        self, const unsigned char* raw, Py_ssize_t start, Py_ssize_t end, Py_ssize_t tail)
    cdef bint _rows_ok(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code) except -1
    cdef int _apply(
        self, EventQueue events, Py_ssize_t first, Py_ssize_t count, long long offset) except -1
    cdef int _append(
        self, LaneTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
        long long offset, long long start, Py_ssize_t index, long long timestamp_us, bytes gtid,
        long long gtid_number) except -1
    cdef int _join(self, EventQueue events, Py_ssize_t first) except -1
    cdef bytes _mysql_prefix(self, const unsigned char* raw, Py_ssize_t at)
