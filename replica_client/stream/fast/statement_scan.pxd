cdef class StatementScan:
    cdef readonly long long size
    cdef readonly Py_ssize_t whole
    cdef readonly long long whole_size
