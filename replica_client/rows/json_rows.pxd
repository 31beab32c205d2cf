from replica_client.protocol.binlog.values.numbers cimport double_at, float_at, put_double, put_float
from replica_client.protocol.binlog.values.temporal_storage cimport put_clock, put_day
from replica_client.protocol.codec.memory cimport (
    arrow_bytes, arrow_ints, copy_bytes, load_le, load_signed, put_digits, put_signed)
from replica_client.rows.value_text cimport ValueText

cdef class JsonColumn:
    cdef readonly bytes key
    cdef int kind
    cdef int width
    cdef int digits
    cdef const unsigned char* bits
    cdef const unsigned char* values
    cdef const unsigned char* data
    cdef bint has_bits
    cdef list entries
    cdef object _buffers

cdef class JsonRows(ValueText):
    cdef object _allocate
    cdef int _put_decimal(self, long long number, int digits) except -1
    cdef int _put_temporal(self, int kind, long long number, int digits) except -1
    cdef int _put_cell(self, JsonColumn column, Py_ssize_t row) except -1
    cdef int _put_object(
        self, list columns, Py_ssize_t row, const unsigned char* absent, bint has_absent,
        object lossless) except -1
