from replica_client.protocol.codec.memory cimport load_le, longs
from replica_client.rows.image cimport Column, Cursor, Plan, RowImageDecoder
from replica_client.rows.image_tests cimport ImageTest
from replica_client.rows.image_values cimport ImageValues

cdef class Walk:
    cdef Plan _plan
    cdef Py_ssize_t _count
    cdef Py_ssize_t _null_size
    cdef bytearray _steps_memory
    cdef bytearray _slots_memory
    cdef long long* _steps
    cdef long long* _slots
    cdef Py_ssize_t _find(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end,
                          ImageValues values) noexcept

cdef class RowScreen:
    cdef RowImageDecoder _decoder
    cdef dict _slots
    cdef list _tests
    cdef list _images
    cdef ImageValues _old
    cdef ImageValues _new
    cdef dict _walks
    cdef Walk _walk(self, Plan plan)
    cdef Py_ssize_t _pass_over(self, Cursor cursor, Walk before, Walk after) except -1
    cdef bint _may_pass(self, bint has_before, bint has_after) except -1
