from replica_client.protocol.binlog.values cimport json_layout as layout
from replica_client.protocol.binlog.values.decimal cimport decimal_fits, put_decimal
from replica_client.protocol.binlog.values.json_keys cimport RECENT_MASK, KeyMemo, KeySection, has_keys
from replica_client.protocol.codec.memory cimport (
    copy_bytes, copy_over, copy_quotable, load_le, load_signed, put_digits, put_escaped, put_literal,
    put_signed, put_ten_thousandths, utf8_ok)

cdef class JsonTextWriter:
    cdef const unsigned char* data
    cdef object _source
    cdef bint _has_source
    cdef Py_ssize_t _size
    cdef bytearray _out
    cdef unsigned char* out
    cdef Py_ssize_t _room
    cdef readonly Py_ssize_t used
    cdef long long _budget
    cdef KeyMemo _keys
    cdef bint _looking
    cdef int _pause
    cdef int _vain
    cdef Py_ssize_t _missed
    cdef int document(self, const unsigned char* data, Py_ssize_t offset, Py_ssize_t size) except -1 nogil
    cdef int _learn(self) except -1
    cdef bytes _bytes(self)
    cdef int _reserve(self, Py_ssize_t used, Py_ssize_t size) except -1 nogil
    cdef int _grow(self, Py_ssize_t used, Py_ssize_t size) except -1
    cdef Py_ssize_t _put_text(self, object text, Py_ssize_t used) except -1
    cdef Py_ssize_t _put_double(self, Py_ssize_t at, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _put_other_double(self, double value, Py_ssize_t at, Py_ssize_t used) except -1
    cdef Py_ssize_t _put_quoted(self, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _end_quoted(
        self, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t used, int found) except -1 nogil
    cdef Py_ssize_t _put_escaped(self, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _put_string(self, Py_ssize_t at, Py_ssize_t end, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _put_long_string(self, Py_ssize_t at, Py_ssize_t end, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _put_scalar(
        self, int kind, Py_ssize_t at, Py_ssize_t end, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _put_decimal(
        self, Py_ssize_t at, Py_ssize_t end, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _container(
        self, int kind, Py_ssize_t start, Py_ssize_t limit, int depth, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _put_rare(
        self, int kind, Py_ssize_t at, Py_ssize_t end, Py_ssize_t used) except -1
    cdef void* _known(
        self, Py_ssize_t start, Py_ssize_t count, Py_ssize_t header, Py_ssize_t size,
        int depth) noexcept nogil
    cdef Py_ssize_t _members(
        self, KeySection keys, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end, int depth,
        Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _elements(
        self, int kind, Py_ssize_t start, long long count, long long header, long long size,
        int depth, Py_ssize_t used) except -1 nogil
    cdef Py_ssize_t _put_key(
        self, bint large, Py_ssize_t at, Py_ssize_t start, long long header, long long size,
        Py_ssize_t used) except -1 nogil
