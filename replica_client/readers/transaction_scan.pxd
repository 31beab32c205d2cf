cdef class TransactionScan:
    cdef readonly long long position
    cdef readonly int reason
    cdef readonly bytes table_map
    cdef int _phase
    cdef int _tail
    cdef long long _step
    cdef long long _start
    cdef long long _timestamp
    cdef long long _block_start
    cdef long long _block_end
    cdef long long _block_timestamp
    cdef bytes _wanted
    cdef object _emit(self)
    cdef bint _is_query(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t size, bytes text) except -1
    cdef bint _is_wanted(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t ready) except -1
