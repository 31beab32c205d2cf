cdef object decimal_at(const unsigned char* data, Py_ssize_t offset, int precision, int scale)
cdef int decimal_words(const unsigned char* data, Py_ssize_t offset, int precision, int scale,
                       unsigned int* words, int word_count) except -1
