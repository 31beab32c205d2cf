from replica_client.rows.image cimport Cursor, Plan, RowImageDecoder
from replica_client.rows.row_change cimport Change, ChangeOrigin
from replica_client.rows.row_screen cimport RowScreen, Walk

cdef class RowsOfEvent:
    cdef bytes _data
    cdef Py_ssize_t _images_start
    cdef Py_ssize_t _images_end
    cdef int _kind
    cdef bytes _columns_before
    cdef bytes _columns_after
    cdef RowImageDecoder _decoder
    cdef object _shape
    cdef object _format
    cdef object _event
    cdef str _file
    cdef str _gtid
    cdef long long _gtid_number
    cdef long long _offset
    cdef long long _event_index
    cdef long long _inner_index
    cdef long long _first_row
    cdef long long _timestamp
    cdef object _changes(self, RowScreen screen)
    cdef object _iterate_event(self, RowScreen screen)

cdef RowsOfEvent undecoded_rows(
    bytes data, Py_ssize_t images_start, Py_ssize_t images_end, int kind, bytes columns_before,
    bytes columns_after, RowImageDecoder decoder, object shape, object format)

cdef class ChangeIterator:
    cdef ChangeOrigin _origin
    cdef RowImageDecoder _decoder
    cdef long long _first_row
    cdef long long _row_index
    cdef int _type_code
    cdef bint _is_insert
    cdef bint _is_delete
    cdef bint _is_partial
    cdef Cursor _cursor
    cdef Plan _before
    cdef Plan _after
    cdef RowScreen _screen
    cdef Walk _before_walk
    cdef Walk _after_walk
    cpdef object begin(self, bytes data, Py_ssize_t start, Py_ssize_t end, bytes columns_before,
                       bytes columns_after)
    cdef bint _pass_over(self) except -1
    cdef Change _take(self)
