from replica_client.rows.image cimport RowImageDecoder

cdef class LaneTransaction:
    cdef object trail
    cdef str file
    cdef long long start_offset
    cdef long long end_offset
    cdef long long event_index
    cdef Py_ssize_t run
    cdef long long run_number
    cdef str gtid_prefix
    cdef long long gtid_number
    cdef long long time
    cdef long long commit_us
    cdef unsigned long long commit_xid
    cdef long long thread
    cdef object one
    cdef list more
    cdef object _rows
    cdef object _start
    cdef object _position

cdef class LaneRows:
    cdef bytes _data
    cdef Py_ssize_t _images_start
    cdef Py_ssize_t _images_end
    cdef int _kind
    cdef bytes _columns_before
    cdef bytes _columns_after
    cdef readonly RowImageDecoder decoder
    cdef readonly object shape
    cdef object _format
    cdef object _event
    cdef str file
    cdef str gtid_prefix
    cdef long long gtid_number
    cdef long long offset
    cdef long long index
    cdef long long timestamp
