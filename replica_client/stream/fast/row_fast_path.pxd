from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.stream.fast.fast_path cimport FastPath
from replica_client.stream.transactions.transaction cimport Transaction
from replica_client.rows.change cimport RowsOfEvent

cdef class RowFastPath(FastPath):
    cdef list _taken
    cdef long long _taken_size
    cdef object _gtid_positions
    cdef Transaction _current
    cdef bytes _prefix_bytes
    cdef str _prefix
    cdef int _add(
        self, Transaction transaction, EventQueue queue, Py_ssize_t at_index, Py_ssize_t tail,
        long long offset, Py_ssize_t index, bint inside) except -1
    cdef RowsOfEvent _rows_at(self, EventQueue queue, Py_ssize_t at_index, Py_ssize_t tail)
