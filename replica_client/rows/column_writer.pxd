cimport cython
from replica_client.protocol.binlog.values.json_writer cimport JsonTextWriter
from replica_client.rows.column_layout cimport Layout
from replica_client.rows.column_sink cimport ColumnSink
from replica_client.rows.image cimport Column, RowImageDecoder

cdef class ColumnWriter:
    cdef readonly object decoder
    cdef RowImageDecoder _decoder
    cdef readonly list lossless
    cdef const unsigned char* _data
    cdef Py_ssize_t _end
    cdef long long* _value_offsets
    cdef bint _has_absent
    cdef bint _in_value
    cdef void* _value_sink
    cdef Py_ssize_t _value_offset
    cdef JsonTextWriter _json
    @cython.final
    cdef void _value_at(self, ColumnSink sink, Py_ssize_t offset) noexcept nogil
    @cython.final
    cdef int _put_images(self, Layout layout, Py_ssize_t count, Py_ssize_t row) except -1 nogil
    @cython.final
    cdef int _put_missing(self, Layout layout, Py_ssize_t count, Py_ssize_t row) except -1
    @cython.final
    cdef int _put_column(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                         Py_ssize_t count, Py_ssize_t row) except -1 nogil
    @cython.final
    cdef int _put_numbers(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                          Py_ssize_t count, Py_ssize_t row, int size) except -1 nogil
    @cython.final
    cdef int _put_texts(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                        Py_ssize_t count, Py_ssize_t row) except -1 nogil
    @cython.final
    cdef int _put_entries(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                          Py_ssize_t count, Py_ssize_t row) except -1 nogil
    @cython.final
    cdef int _put_others(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                         Py_ssize_t count, Py_ssize_t row) except -1 nogil
    @cython.final
    cdef int _put_decimal(self, ColumnSink sink, const unsigned char* data,
                          Py_ssize_t offset, Py_ssize_t row) except -1 nogil
    @cython.final
    cdef int _put_converted(self, ColumnSink sink, const unsigned char* data,
                            Py_ssize_t offset, Py_ssize_t length, Py_ssize_t row) except -1 nogil
    @cython.final
    cdef int _entry_of(self, ColumnSink sink, const unsigned char* data,
                       Py_ssize_t offset, Py_ssize_t length, unsigned long long bits) except -2
    @cython.final
    cdef int _put_value(self, ColumnSink sink, const unsigned char* data,
                        Py_ssize_t offset, Py_ssize_t length, Py_ssize_t row) except -1
    @cython.final
    cdef object _value(self, Column column, const unsigned char* data, Py_ssize_t offset,
                       Py_ssize_t length)
