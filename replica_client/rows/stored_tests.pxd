from replica_client.protocol.binlog.values.decimal cimport decimal_fits
from replica_client.protocol.codec.memory cimport load_be, load_le, longs, same_bytes, utf8_ok
from replica_client.rows.image cimport Column, RowImageDecoder
from replica_client.rows.image_tests cimport ValueTest
from replica_client.rows.image_values cimport ImageValues

cdef class TemporalTest(ValueTest):
    cdef int _kind
    cdef int _shift
    cdef unsigned long long _fraction_limit
    cdef bint _negated
    cdef Py_ssize_t _count
    cdef bytearray _memory
    cdef long long* _bounds
    cdef bint _is_valid(self, unsigned long long raw) noexcept

cdef class DecimalTest(ValueTest):
    cdef int _precision
    cdef int _scale
    cdef list _ranges
    cdef bytes _negative_zero
    cdef bint _negated

cdef class TableTest(ValueTest):
    cdef bytearray _outcomes

cdef class FloatTest(ValueTest):
    cdef list _literals
    cdef int _sign
    cdef bint _negated
    cdef bint _is_single

cdef class JsonTest(ValueTest):
    cdef list _texts
    cdef bint _negated
