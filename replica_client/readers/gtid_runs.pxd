cdef class GtidRuns:
    cdef list found
    cdef long long last
    cdef long long _first
    cdef bytes _sid
    cdef unsigned long long _sid_first
    cdef unsigned long long _sid_second
    cdef int _kind
    cdef long long _domain
    cdef long long _server
    cdef bytes _prefix
    cdef bint _is_same_server(self, const unsigned char* raw, Py_ssize_t at) noexcept
    cdef bytes prefix(self, const unsigned char* raw, Py_ssize_t at)
    cdef int _mysql(self, const unsigned char* raw, Py_ssize_t at) except -1
    cdef int _mariadb(self, long long domain, long long server) except -1
    cdef int join(self, const unsigned char* raw, Py_ssize_t at) except -1
