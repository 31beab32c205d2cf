from replica_client.stream.fast.event_fast_path cimport EventFastPath
from replica_client.stream.fast.tagged_gtid cimport GtidTail
from replica_client.rows.value_text cimport ValueText

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
