from replica_client.protocol.codec.memory cimport longs

cdef class ImageValues:
    cdef const unsigned char* data
    cdef long long* offsets
    cdef long long* sizes
    cdef Py_ssize_t count
    cdef list _memory
