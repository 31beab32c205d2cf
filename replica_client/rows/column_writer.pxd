cimport cython
from replica_client.protocol.binlog.values.decimal cimport decimal_words
from replica_client.protocol.binlog.values.json_writer cimport JsonTextWriter
from replica_client.protocol.binlog.values.temporal_storage cimport (
    date_days, datetime2_microseconds, time2_microseconds, timestamp2_microseconds)
from replica_client.protocol.codec.memory cimport (
    clear_bit, copy_short_utf8, copy_utf8, load_be, load_le, load_le_there, load_signed, store_number)
from replica_client.rows.column_layout cimport Layout
from replica_client.rows.column_sink cimport ColumnSink
from replica_client.rows.image cimport Column, RowImageDecoder
from replica_client.rows.sink_ops cimport (
    LOOKUP_SIZE, OP_BIT, OP_BYTES, OP_COPY_1, OP_COPY_2, OP_COPY_4, OP_COPY_8, OP_DATE, OP_DATETIME,
    OP_DECIMAL, OP_DOUBLE, OP_ENUM, OP_FLOAT, OP_JSON, OP_OBJECT, OP_PASS, OP_SET, OP_SIGNED, OP_TIME,
    OP_TIMESTAMP, OP_UNSIGNED, OP_UTF8, OP_UTF8_CHAR)

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
