from replica_client.rows.image cimport Cursor, Plan, RowImageDecoder

cdef class ChangeOrigin:
    cdef str kind
    cdef object shape
    cdef str database
    cdef str table
    cdef str file
    cdef long long position
    cdef long long event_index
    cdef str _gtid
    cdef long long _gtid_number
    cdef long long timestamp
    cdef str gtid(self)

cdef class Change:
    cdef ChangeOrigin _origin
    cdef object _before
    cdef object _after
    cdef long long _row_index

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
    cpdef object begin(self, bytes data, Py_ssize_t start, Py_ssize_t end, bytes columns_before,
                       bytes columns_after)
    cdef Change _take(self)
