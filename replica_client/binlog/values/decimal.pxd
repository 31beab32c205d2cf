cdef object decimal_at(const unsigned char* data, Py_ssize_t offset, int precision, int scale)
