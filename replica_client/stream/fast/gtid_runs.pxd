from replica_client.stream.fast.tagged_gtid cimport TaggedGtid

cdef class GtidRuns:
    cdef list found
    cdef long long last
    cdef bytes prefix
    cdef long long number
    cdef long long timestamp_us
    cdef long long thread
    cdef long long _first
    cdef bytes _sid
    cdef bytes _tag
    cdef unsigned long long _sid_first
    cdef unsigned long long _sid_second
    cdef int _kind
    cdef long long _domain
    cdef long long _server
    cdef bytes _prefix
    cdef TaggedGtid _tagged
    cdef Py_ssize_t _read_at
    cdef int read(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int _identify(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _is_other(self, int kind, const unsigned char* sid, Py_ssize_t at) noexcept
    cdef int _mariadb(self, long long domain, long long server) except -1
    cdef int join(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
