from replica_client.protocol.codec.memory cimport arrow_bytes, arrow_ints, copy_bytes, fill_bytes, load_le

cdef class TextColumn:
    cdef object _bits_buffer
    cdef object _offsets_buffer
    cdef object _data_buffer
    cdef unsigned char* bits
    cdef int* offsets
    cdef unsigned char* data
    cdef Py_ssize_t room
    cdef Py_ssize_t used
    cdef Py_ssize_t nulls
    cdef int _grow(self, Py_ssize_t size) except -1

cdef class TextColumns:
    cdef readonly list columns
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _rows
    cdef Py_ssize_t _left
    cdef int _row(self, const unsigned char* data, Py_ssize_t end) except -1
