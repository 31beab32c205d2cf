from replica_client.binlog.values.json_writer cimport JsonTextWriter
from replica_client.rows.image cimport Column, Cursor, Plan, RowImageDecoder

cdef class ColumnarRows

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
    cdef void _store(self, Py_ssize_t row, unsigned long long number) noexcept
    cdef void _copy(self, Py_ssize_t row, const unsigned char* data, Py_ssize_t offset,
                    Py_ssize_t size) noexcept
    cdef Py_ssize_t _put(self, ColumnarRows rows, const unsigned char* data, Py_ssize_t offset,
                         Py_ssize_t end, Py_ssize_t row) except -1
    cdef int _put_null(self, Py_ssize_t row) except -1
    cdef int _put_bytes(self, Py_ssize_t row, const unsigned char* data, Py_ssize_t offset,
                        Py_ssize_t size) except -1
    cdef bint _put_object(self, Py_ssize_t row, object value) except -1
    cdef int _entry(self, object number, object text) except -1
    cdef int _abandon(self, Py_ssize_t row) except -1

cdef class Layout:
    cdef Plan plan
    cdef list sinks
    cdef list missing
    cdef int absent
    cdef Py_ssize_t null_size
    cdef Py_ssize_t count
    cdef bytearray _slots
    cdef void** slots

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
    cdef int _image(self, Layout layout, Py_ssize_t row) except -1
    cdef int _put_other(self, ColumnSink sink, const unsigned char* data,
                        Py_ssize_t offset, Py_ssize_t length, Py_ssize_t row) except -1
    cdef int _put_entry(self, ColumnSink sink, const unsigned char* data,
                        Py_ssize_t offset, Py_ssize_t length, Py_ssize_t row) except -1
    cdef int _put_value(self, ColumnSink sink, const unsigned char* data,
                        Py_ssize_t offset, Py_ssize_t length, Py_ssize_t row) except -1
    cdef object _value(self, Column column, const unsigned char* data, Py_ssize_t offset,
                       Py_ssize_t length)
    cdef int _abandon(self) except -1
