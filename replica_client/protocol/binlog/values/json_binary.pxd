cdef class JsonDocument:
    cdef readonly bytes data
    cdef str _text

cdef JsonDocument new_document(const unsigned char* data, Py_ssize_t offset, Py_ssize_t size)
