from replica_client.protocol.codec.memory cimport load_be, power_of_ten, put_digits

cdef object decimal_at(const unsigned char* data, Py_ssize_t offset, int precision, int scale)
cdef int decimal_words(const unsigned char* data, Py_ssize_t offset, int precision, int scale,
                       unsigned int* words, int word_count) except -1 nogil
cdef Py_ssize_t put_decimal(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset,
    int precision, int scale) except -1 nogil
cdef bint decimal_fits(
    const unsigned char* data, Py_ssize_t offset, int precision, int scale) except -1 nogil
