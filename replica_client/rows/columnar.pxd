from replica_client.binlog.values.json_writer cimport JsonTextWriter
from replica_client.rows.column_sink cimport ColumnSink
from replica_client.rows.image cimport Column, Cursor, Plan, RowImageDecoder

cdef class Layout:
    cdef Plan plan
    cdef list sinks
    cdef list missing
    cdef int absent
    cdef Py_ssize_t null_size
    cdef Py_ssize_t count
    cdef Py_ssize_t images
    cdef bytearray _slots
    cdef void** slots
    cdef bytearray _steps
    cdef long long* steps

cdef class ColumnarRows:
    cdef readonly object decoder
    cdef RowImageDecoder _decoder
    cdef readonly list sinks
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t appended
    cdef readonly long long size
    cdef readonly list lossless
    cdef readonly list absent_lists
    cdef readonly int absent_before
    cdef readonly int absent_after
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _expected
    cdef Py_ssize_t _max_rows
    cdef long long _max_size
    cdef dict _layouts
    cdef bytes _source
    cdef const unsigned char* _data
    cdef Py_ssize_t _offset
    cdef Py_ssize_t _end
    cdef object _places_memory
    cdef Py_ssize_t _places_room
    cdef long long* _places
    cdef Py_ssize_t _last
    cdef Py_ssize_t _written
    cdef bint _together
    cdef bint _has_absent
    cdef bint _in_value
    cdef void* _value_sink
    cdef Py_ssize_t _value_offset
    cdef JsonTextWriter _json
    cdef Py_ssize_t _base
    cdef bint _insert
    cdef Layout _before
    cdef Layout _after
    cdef list _passed
    cdef Layout _layout(self, bytes bitmap)
    cdef ColumnSink _sink_of(self, Column column)
    cdef int _begin(self, bint insert, bint delete, bytes columns_before, bytes columns_after,
                    const unsigned char* data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int _take(self) except -1
    cdef int _take_images(self) except -1
    cdef void _value_at(self, ColumnSink sink, Py_ssize_t offset) noexcept
    cdef int _reserve(self) except -1
    cdef bint _take_together(self, int step) except -1
    cdef Py_ssize_t _measure(self, Layout layout, Py_ssize_t most) except -1
    cdef int _image(self, Layout layout, Py_ssize_t row) except -1
    cdef int _put_images(self, Layout layout, Py_ssize_t count, Py_ssize_t row) except -1
    cdef int _put_column(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                         Py_ssize_t count, Py_ssize_t row) except -1
    cdef int _put_numbers(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                          Py_ssize_t count, Py_ssize_t row, int size) except -1
    cdef int _put_texts(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                        Py_ssize_t count, Py_ssize_t row) except -1
    cdef int _put_entries(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                          Py_ssize_t count, Py_ssize_t row) except -1
    cdef int _put_others(self, ColumnSink sink, Py_ssize_t first, Py_ssize_t stride,
                         Py_ssize_t count, Py_ssize_t row) except -1
    cdef int _put_decimal(self, ColumnSink sink, const unsigned char* data,
                          Py_ssize_t offset, Py_ssize_t row) except -1
    cdef int _put_converted(self, ColumnSink sink, const unsigned char* data,
                            Py_ssize_t offset, Py_ssize_t length, Py_ssize_t row) except -1
    cdef int _entry_of(self, ColumnSink sink, const unsigned char* data,
                       Py_ssize_t offset, Py_ssize_t length, unsigned long long bits) except -2
    cdef int _put_value(self, ColumnSink sink, const unsigned char* data,
                        Py_ssize_t offset, Py_ssize_t length, Py_ssize_t row) except -1
    cdef object _value(self, Column column, const unsigned char* data, Py_ssize_t offset,
                       Py_ssize_t length)
    cdef int _abandon(self) except -1
    cdef int _forget_written(self) except -1
