cdef class Transaction:
    cdef object _start
    cdef object _position
    cdef object _gtid_positions
    cdef str _file
    cdef long long _start_offset
    cdef long long _end_offset
    cdef long long _last_index
    cdef Py_ssize_t _run
    cdef long long _run_number
    cdef str _gtid
    cdef long long _gtid_number
    cdef long long _timestamp
    cdef long long _commit_us
    cdef unsigned long long _xid
    cdef bint _has_xid
    cdef long long _thread
    cdef long long _part
    cdef bint _complete
    cdef bint _xa_commit
    cdef object _one
    cdef list _more
    cdef object _rows
    cdef object _statements
    cdef object _schema_changes
    cdef object _losses

cdef class Changes:
    cdef Transaction _transaction
    cdef object _one
    cdef object _rows
    cdef list _decoded

cdef Transaction pending_transaction(object gtid_positions, str file, long long start)
