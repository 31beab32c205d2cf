from replica_client.protocol.codec.memory cimport arrow_bytes, arrow_ints, copy_bytes, fill_bytes, store_number
from replica_client.rows.image cimport Column
from replica_client.rows.sink_ops cimport (
    BYTES, DECIMAL, DICTIONARY, FIXED, LOOKUP_SIZE, OBJECTS, OP_COPY_1, OP_COPY_2, OP_COPY_4, OP_COPY_8,
    OP_JSON, OP_OBJECT, OP_PASS, OP_UNKNOWN)

cdef class ColumnSink:
    cdef readonly str name
    cdef readonly int storage
    cdef int op
    cdef int width
    cdef Py_ssize_t size
    cdef int prefix
    cdef int precision
    cdef int digits
    cdef Column column
    cdef object code
    cdef object convert
    cdef object _allocate
    cdef unsigned char* values
    cdef unsigned char* bits
    cdef int* offsets
    cdef int* lookup
    cdef object _values_buffer
    cdef object _bits_buffer
    cdef object _offsets_buffer
    cdef object _lookup_buffer
    cdef dict _numbers
    cdef readonly list entries
    cdef readonly list objects
    cdef Py_ssize_t capacity
    cdef Py_ssize_t used
    cdef Py_ssize_t room
    cdef Py_ssize_t nulls
    cdef object _data_buffer
    cdef unsigned char* data
    cdef int _read_of(self, Column column) except -1
    cdef int _reserve(self, Py_ssize_t rows) except -1
    cdef int _make_room(self, Py_ssize_t size) except -1
    cdef int _put_null(self, Py_ssize_t row) except -1 nogil
    cdef int _put_bytes(self, Py_ssize_t row, const unsigned char* data, Py_ssize_t offset,
                        Py_ssize_t size) except -1 nogil
    cdef bint _put_object(self, Py_ssize_t row, object value) except -1
    cdef int _entry(self, object number, object text) except -1
    cdef int _abandon(self, Py_ssize_t row, Py_ssize_t count) except -1
