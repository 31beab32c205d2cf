from replica_client.rows.image cimport Cursor, Plan, RowImageDecoder

cdef class Walk:
    cdef Plan _plan
    cdef Py_ssize_t _count
    cdef Py_ssize_t _null_size
    cdef bytearray _steps_memory
    cdef bytearray _slots_memory
    cdef long long* _steps
    cdef long long* _slots
    cdef Py_ssize_t _find(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t end,
                          long long* offsets, long long* sizes) noexcept

cdef class RowScreen:
    cdef RowImageDecoder _decoder
    cdef dict _slots
    cdef Py_ssize_t _slot_count
    cdef list _tests
    cdef list _images
    cdef list _memory
    cdef long long* _old_offsets
    cdef long long* _old_sizes
    cdef long long* _new_offsets
    cdef long long* _new_sizes
    cdef dict _walks
    cdef Walk _walk(self, Plan plan)
    cdef Py_ssize_t _pass_over(self, Cursor cursor, Walk before, Walk after) except -1
    cdef bint _may_pass(self, const unsigned char* data, bint has_before, bint has_after) except -1
