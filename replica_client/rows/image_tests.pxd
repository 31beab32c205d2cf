from replica_client.protocol.codec.memory cimport load_be, load_le, load_signed, longs, same_bytes, utf8_ok
from replica_client.rows.image cimport Column, RowImageDecoder
from replica_client.rows.image_values cimport ImageValues

cdef class ImageTest:
    cdef int _outcome(self, ImageValues values) except -1

cdef class JoinedTest(ImageTest):
    cdef list _parts
    cdef int _decisive

cdef class NotTest(ImageTest):
    cdef ImageTest _part

cdef class ValueTest(ImageTest):
    cdef Py_ssize_t _slot
    cdef RowImageDecoder _decoder
    cdef Column _column
    cdef object _ask
    cdef dict _known
    cdef int _for_null
    cdef int _by_value(self, ImageValues values) except -1
    cdef int _of_value(self, ImageValues values, Py_ssize_t at) except -1

cdef class NullTest(ValueTest):
    pass

cdef class NumberTest(ValueTest):
    cdef int _form
    cdef bint _negated
    cdef Py_ssize_t _count
    cdef bytearray _memory
    cdef long long* _bounds

cdef class BytesTest(ValueTest):
    cdef list _literals
    cdef int _sign
    cdef bint _negated
    cdef int _checked
    cdef bint _trims
    cdef Py_ssize_t _length
    cdef bint _compares(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t size,
                        bytes literal) noexcept
