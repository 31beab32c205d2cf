from replica_client.protocol.binlog.layout cimport (
    CHECKSUM_SIZE, FLAGS_OFFSET, GTID_CLOCK_OFFSET, GTID_FLAGS_OFFSET, GTID_LAST_COMMITTED_OFFSET,
    GTID_NUMBER_OFFSET, GTID_SEQUENCE_OFFSET, GTID_SID_OFFSET, GTID_SID_SIZE, GTID_TIMESTAMP_OFFSET,
    HEADER_SIZE, LOGICAL_CLOCK, MARIADB_COMMIT_ID, MARIADB_COMMIT_ID_SIZE, MARIADB_DOMAIN_OFFSET,
    MARIADB_FIELDS_OFFSET, MARIADB_FLAGS_OFFSET, MARIADB_SEQUENCE_OFFSET, NEXT_POSITION_OFFSET,
    QUERY_DATABASE_SIZE_OFFSET, QUERY_EXEC_TIME_OFFSET, QUERY_POST_HEADER_SIZE, QUERY_THREAD_OFFSET,
    ROWS_EXTRA, ROWS_EXTRA_SIZE, ROWS_FLAGS_OFFSET, ROWS_KIND, ROWS_POST_HEADER_SIZE, SERVER_ID_OFFSET,
    TABLE_ID_SIZE, TABLE_MAP_POST_HEADER_SIZE, TIMESTAMP_OFFSET, TYPE_OFFSET, UPDATE, XID_SIZE, EventClass,
    query_text, rows_columns)
from replica_client.protocol.codec.memory cimport copy_bytes, load_le, load_signed, put_digits, same_bytes
from replica_client.rows.value_text cimport ValueText
from replica_client.stream.fast.event_fast_path cimport EventFastPath
from replica_client.stream.fast.tagged_gtid cimport GtidTail

cdef class EventText(EventFastPath):
    cdef readonly ValueText text
    cdef bint _json
    cdef object _fields
    cdef list _types
    cdef str _file_known
    cdef bytes _file_text
    cdef long long _time_known
    cdef bytes _time_text
    cdef object _maps
    cdef dict _long_maps
    cdef object _columns
    cdef dict _queries
    cdef dict _statements
    cdef dict _xids
    cdef dict _heads
    cdef dict _tails
    cdef GtidTail _gtid_tail
    cdef bytes _sid
    cdef bytes _uuid
    cdef int _json_head(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, long long offset,
        Py_ssize_t tail, Py_ssize_t inner_index) except -1
    cdef int _put_cell(self, long long number) except -1
    cdef int _plain_head(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, long long offset,
        Py_ssize_t inner_index) except -1
    cdef bint _put_fields(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _put_table_map(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code) except -1
    cdef bint _put_alike(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _put_statement(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _put_known(self, object known, bytes body, int code) except -1
    cdef bint _put_query(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _put_rows(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code) except -1
    cdef bint _put_gtid(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, bint is_anonymous) except -1
    cdef int _put_optional(self, int name, long long value) except -1
    cdef bint _put_mariadb_gtid(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
