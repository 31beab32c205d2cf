cimport cython
from replica_client.codec.event_queue cimport EventQueue
from replica_client.rows.columnar cimport ColumnarRows
from replica_client.rows.runs cimport EventRuns

cdef class LaneTable:
    cdef bytes content
    cdef const unsigned char* text
    cdef Py_ssize_t size
    cdef object table_map
    cdef object builder
    cdef ColumnarRows rows
    cdef EventRuns runs
    cdef Py_ssize_t column_count
    cdef bint is_wanted
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
    cdef readonly bint checks
    cdef Py_ssize_t _tail
    cdef long long _max_event_size
    cdef object _revision
    cdef object _generation
    cdef dict _tables
    cdef dict _by_id
    cdef list _near
    cdef bytearray _slots_memory
    cdef void** _slots
    cdef long long _turn
    cdef dict _last_tables
    cdef long long _switch
    cdef list _ready
    cdef readonly bint took
    cdef readonly bint incomplete
    cdef list _gtids
    cdef object _fault
    cdef bytes _sid
    cdef unsigned long long _sid_first
    cdef unsigned long long _sid_second
    cdef bint _has_sid
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
    cdef bint _passes_over
    cdef Py_ssize_t _last_count
    cdef EventQueue _inner
    cdef Py_ssize_t _inside
    cdef bint _look_inside(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef long long _end
    cdef long long _verified
    cdef long long _verified_begin
    cdef Py_ssize_t _sound
    cdef Py_ssize_t _ahead
    cdef Py_ssize_t _look_ahead(self, EventQueue events, Py_ssize_t first) except -1
    cdef Py_ssize_t _count(self, EventQueue events, Py_ssize_t first, long long offset) except -1
    @cython.final
    cdef Py_ssize_t _pass_over(
        self, EventQueue events, Py_ssize_t first, long long offset, long long stop) except -1
    @cython.final
    cdef bint _is_sound(self, EventQueue events, Py_ssize_t index) except -1
    @cython.final
    cdef void* _near_slot(self, long long number) noexcept
    @cython.final
    cdef bint _is_near(
        self, const unsigned char* raw, Py_ssize_t start, Py_ssize_t end) noexcept
    cdef LaneTable _known(self, long long number)
    cdef LaneTable _table_of(self, const unsigned char* raw, Py_ssize_t start, Py_ssize_t end)
    @cython.final
    cdef bint _rows_ok(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code) except -1
    @cython.final
    cdef bint _bring_near(self, long long number) except -1
    @cython.final
    cdef bint _is_same_server(self, const unsigned char* raw, Py_ssize_t at) noexcept
    cdef int _apply(
        self, EventQueue events, Py_ssize_t first, Py_ssize_t count, long long offset) except -1
    cdef int _append(
        self, LaneTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
        long long offset, long long start, Py_ssize_t index, long long timestamp_us, bytes gtid,
        long long gtid_number) except -1
    cdef int _join(self, EventQueue events, Py_ssize_t first) except -1
    cdef bytes _mysql_prefix(self, const unsigned char* raw, Py_ssize_t at)
