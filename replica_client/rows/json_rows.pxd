cdef class JsonColumn:
    cdef readonly bytes key
    cdef int kind
    cdef int width
    cdef int digits
    cdef const unsigned char* bits
    cdef const unsigned char* values
    cdef const unsigned char* data
    cdef bint has_bits
    cdef list entries
    cdef object _buffers

cdef class JsonRows:
    cdef object _allocate
    cdef object _buffer
    cdef unsigned char* out
    cdef Py_ssize_t used
    cdef Py_ssize_t room
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int _put(self, bytes text) except -1
    cdef int _put_number(self, unsigned long long number, int width) except -1
    cdef int _put_signed(self, long long number) except -1
    cdef int _put_quoted(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef int _put_base64(self, const unsigned char* data, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef int _put_date(self, long long days) except -1
    cdef int _put_clock(self, long long microseconds, int digits) except -1
    cdef int _put_value(self, JsonColumn column, Py_ssize_t row) except -1
    cdef int _put_object(
        self, list columns, Py_ssize_t row, const unsigned char* absent, bint has_absent,
        object lossless) except -1
