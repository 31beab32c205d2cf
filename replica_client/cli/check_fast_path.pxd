from replica_client.stream.fast.event_fast_path cimport EventFastPath
from replica_client.stream.fast.tagged_gtid cimport GtidTail
from replica_client.rows.json_lines cimport JsonLines

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
