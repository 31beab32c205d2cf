cdef class StatementScan:
    cdef readonly long long size
