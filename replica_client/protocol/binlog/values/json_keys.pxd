from replica_client.protocol.codec.memory cimport copy_quotable, fingerprint, load_le, same_bytes, utf8_ok

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

cdef bint has_keys(
    KeySection keys, const unsigned char* data, Py_ssize_t start, Py_ssize_t count,
    Py_ssize_t header, Py_ssize_t size) noexcept nogil

cdef class KeyMemo:
    cdef void** recent
    cdef bytearray _recent_memory
    cdef list _sections
    cdef void** _positions
    cdef bytearray _offsets_memory
    cdef unsigned long long _missed
    cdef int _displace(self, Py_ssize_t position, KeySection section) except -1
    cdef void* find(
        self, const unsigned char* data, Py_ssize_t start, Py_ssize_t count, Py_ssize_t header,
        Py_ssize_t size, int depth) noexcept nogil
    cdef int learn(self, const unsigned char* data, Py_ssize_t start) except -1
