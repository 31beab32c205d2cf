from cpython.pythread cimport PyThread_type_lock

cdef class Turn:
    cdef PyThread_type_lock _lock
    cdef void _take(self) noexcept nogil
    cdef void _give(self) noexcept nogil
