from replica_client.protocol.codec.memory cimport load_le, load_le_there, longs
from replica_client.rows.column_layout cimport Layout
from replica_client.rows.column_sink cimport ColumnSink
from replica_client.rows.column_writer cimport ColumnWriter
from replica_client.rows.image cimport Column, Cursor, Plan, RowImageDecoder
from replica_client.rows.sink_ops cimport NO_STEP, OBJECTS, OP_PASS, OP_UNKNOWN

cdef class ColumnarRows(ColumnWriter):
    cdef readonly list sinks
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t appended
    cdef readonly long long size
    cdef readonly list absent_lists
    cdef readonly int absent_before
    cdef readonly int absent_after
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _expected
    cdef Py_ssize_t _max_rows
    cdef long long _max_size
    cdef dict _layouts
    cdef bytes _source
    cdef Py_ssize_t _offset
    cdef object _offsets_memory
    cdef Py_ssize_t _offsets_room
    cdef Py_ssize_t _last
    cdef Py_ssize_t _written
    cdef bint _together
    cdef Py_ssize_t _base
    cdef Layout _before
    cdef Layout _after
    cdef list _passed
    cdef Layout _layout(self, bytes bitmap)
    cdef ColumnSink _sink_of(self, Column column)
    cdef int _begin(self, bint insert, bint delete, bytes columns_before, bytes columns_after,
                    const unsigned char* data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int _take(self) except -1
    cdef int _start(self, Layout before, Layout after, const unsigned char* data,
                    Py_ssize_t start, Py_ssize_t end) except -1 nogil
    cdef int _take_images(self, Layout before, Layout after) except -1 nogil
    cdef int _reserve(self) except -1
    cdef int _have_offsets(self, Py_ssize_t count) except -1
    cdef bint _take_together(self, Layout layout, int step) except -1 nogil
    cdef Py_ssize_t _measure(self, Layout layout, Py_ssize_t most) except -1 nogil
    cdef int _image(self, Layout layout, Py_ssize_t row) except -1 nogil
    cdef int _cut_image(self, Layout layout, Py_ssize_t row) except -1
    cdef int _abandon(self) except -1
    cdef int _forget_written(self) except -1
