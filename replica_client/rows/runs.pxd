from replica_client.protocol.codec.memory cimport copy_bytes
from replica_client.protocol.codec.turns cimport Turn

cdef class EventRuns:
    cdef object _allocate
    cdef object _buffer
    cdef long long* _fields
    cdef Py_ssize_t _count
    cdef Py_ssize_t _capacity
    cdef readonly long long era
    cdef dict _ids
    cdef list _prefixes
    cdef list _widths
    cdef list _suffixes
    cdef int _text(self, bytes prefix, int width, bytes suffix) except -1
    cdef int _add(
        self, int kind, long long changes, long long row_index, long long timestamp_us,
        long long offset, long long event_index, int file, int version, long long version_number,
        int gtid, long long gtid_number, int absent_before, int absent_after) except -1 nogil
    cdef long long _common(self, int field) noexcept
    cdef void _fill_numbers(self, long long* out, int field) noexcept nogil
    cdef void _fill_row_indexes(self, long long* out) noexcept nogil
    cdef bint _repeats(self, Py_ssize_t run, int field) noexcept
    cdef Py_ssize_t _size_of(self, Py_ssize_t run, int field) except -1
    cdef Py_ssize_t _write(
        self, Py_ssize_t run, int field, unsigned char* data, Py_ssize_t at) except -1
