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
    cdef object _transaction
    cdef object _before
    cdef str gtid(self)

cdef class Change:
    cdef ChangeOrigin _origin
    cdef object _before
    cdef object _after
    cdef long long _row_index
