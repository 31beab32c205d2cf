cdef enum:
    RECENT_MASK = 7

cdef class KeySection:
    cdef unsigned long long mark
    cdef Py_ssize_t count
    cdef Py_ssize_t size
    cdef bytes _entries
    cdef bytes _names
    cdef bytes _text
    cdef const unsigned char* entries
    cdef const unsigned char* names
    cdef const unsigned char* text

cdef class KeyMemo:
    cdef list recent
    cdef list _sections
    cdef unsigned long long _missed
    cdef KeySection find(
        self, const unsigned char* data, Py_ssize_t start, Py_ssize_t count, Py_ssize_t header,
        Py_ssize_t size, int depth)
    cdef int learn(self, const unsigned char* data, Py_ssize_t start) except -1
