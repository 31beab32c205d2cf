from replica_client.protocol.codec.memory cimport load_le
from replica_client.rows.change cimport RowsOfEvent
from replica_client.rows.image cimport Column, Plan, RowImageDecoder
from replica_client.rows.value_text cimport ValueText

cdef class TableHead:
    cdef object shape
    cdef bint works
    cdef list texts

cdef class RowLines(ValueText):
    cdef object _head_type
    cdef int _kind
    cdef str _file
    cdef long long _position
    cdef long long _timestamp
    cdef TableHead _head_of(self, RowsOfEvent rows)
    cdef bint _event(self, RowsOfEvent rows) except -1
    cdef int _begin(self, RowsOfEvent rows, TableHead head) except -1
    cdef Py_ssize_t _row(
        self, RowImageDecoder decoder, Plan before, Plan after, const unsigned char* data,
        Py_ssize_t at, Py_ssize_t end, long long index) except -1
    cdef Py_ssize_t _length(
        self, Column column, const unsigned char* data, Py_ssize_t offset,
        Py_ssize_t end) noexcept
