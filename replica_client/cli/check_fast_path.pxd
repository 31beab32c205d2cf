from replica_client.protocol.binlog.layout cimport (
    GTID_CLOCK_OFFSET, GTID_TICKET_SIZE, GTID_TIMESTAMP_OFFSET, HEADER_SIZE, LOGICAL_CLOCK,
    QUERY_DATABASE_SIZE_OFFSET, ROWS_EXTRA, ROWS_EXTRA_SIZE, ROWS_KIND, ROWS_POST_HEADER_SIZE, TABLE_ID_SIZE,
    TYPE_OFFSET, UPDATE, XID_SIZE, EventClass, rows_columns)
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport load_le
from replica_client.rows.image cimport Plan, RowImageDecoder
from replica_client.rows.json_lines cimport JsonLines
from replica_client.stream.fast.event_fast_path cimport EventFastPath
from replica_client.stream.fast.fast_path_tables cimport FastPathTable, FastPathTables
from replica_client.stream.fast.tagged_gtid cimport GtidTail

cdef class CheckFastPath(EventFastPath):
    cdef object _general
    cdef JsonLines _text
    cdef list _counts
    cdef object _maps
    cdef set _queries
    cdef GtidTail _gtid_tail
    cdef int _learn(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _look_at_inner(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int _add(self, int code, long long size, long long rows) except -1
    cdef long long _rows_of(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -2
    cdef bint _gtid_is_plain(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) noexcept
    cdef long long _images(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code) except -2
