from replica_client.protocol.codec.memory cimport copy_bytes, put_literal, same_bytes
from replica_client.rows.change cimport RowsOfEvent
from replica_client.rows.image cimport Column, Plan, RowImageDecoder
from replica_client.rows.row_lines cimport RowLines, TableHead

cdef class PlainHead(TableHead):
    pass

cdef class TableLines(RowLines):
    cdef object _general_line
    cdef tuple _widths
    cdef Py_ssize_t _position_width
    cdef str _file_known
    cdef bytes _file_text
    cdef Py_ssize_t _file_width
    cdef bytes _time_text
    cdef bytes _cells
    cdef bint _is_odd
    cdef bytearray _bounds_memory
    cdef int _put_key(self, Column column, Py_ssize_t length, Py_ssize_t comma) except -1
    cdef int _put_checked(
        self, RowImageDecoder decoder, Column column, const unsigned char* data,
        Py_ssize_t offset, Py_ssize_t length) except -1
    cdef Py_ssize_t _one_image(
        self, RowImageDecoder decoder, Plan plan, const unsigned char* data, Py_ssize_t nulls,
        Py_ssize_t end) except -1
    cdef Py_ssize_t _find(
        self, Plan plan, const unsigned char* data, Py_ssize_t nulls, Py_ssize_t end,
        long long* bounds, Py_ssize_t field) except -1
    cdef Py_ssize_t _two_images(
        self, RowImageDecoder decoder, Plan plan, const unsigned char* data, Py_ssize_t at,
        Py_ssize_t end) except -1
    cdef bint _is_same(
        self, RowImageDecoder decoder, Column column, const unsigned char* data, Py_ssize_t was,
        Py_ssize_t old, Py_ssize_t now, Py_ssize_t new) except -1
