from replica_client.codec.event_queue cimport EventQueue

cdef class StatementScan:
    cdef readonly long long size
    cdef bint _is_plain(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t size) except -1
