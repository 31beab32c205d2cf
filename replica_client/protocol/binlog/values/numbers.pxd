from replica_client.protocol.codec.memory cimport put_ten_thousandths

cdef object float_at(const unsigned char* data, Py_ssize_t offset)
cdef object double_at(const unsigned char* data, Py_ssize_t offset)
cdef unsigned long long uint_le(const unsigned char* data, Py_ssize_t offset, int size) noexcept
cdef Py_ssize_t put_double(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset) except -1
cdef Py_ssize_t put_float(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset) except -1
