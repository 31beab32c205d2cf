cdef class JsonTextWriter:
    cdef const unsigned char* data
    cdef object _source
    cdef Py_ssize_t _offset
    cdef Py_ssize_t _size
    cdef bytearray _out
    cdef unsigned char* out
    cdef Py_ssize_t _room
    cdef readonly Py_ssize_t used
    cdef long long _budget
    cdef int document(self, const unsigned char* data, Py_ssize_t offset, Py_ssize_t size) except -1
    cdef bytes _bytes(self)
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int _grow(self, Py_ssize_t size) except -1
    cdef int _put_text(self, object text) except -1
    cdef int _put_literal(self, int literal) except -1
    cdef int _put_number(self, unsigned long long number, bint negative) except -1
    cdef int _put_double(self, Py_ssize_t at) except -1
    cdef int _put_decimal(self, long long whole, int digits, bint negative) except -1
    cdef int _put_quoted(self, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef int _put_escaped(self, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef int _put_string(self, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int _put_scalar(self, int kind, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int _container(self, int kind, Py_ssize_t start, Py_ssize_t limit, int depth) except -1
