from replica_client.protocol.binlog.layout cimport (
    HEADER_SIZE, QUERY_THREAD_OFFSET, ROWS_KIND, TABLE_ID_SIZE, TIMESTAMP_OFFSET, TYPE_OFFSET, UPDATE,
    XID_SIZE, EventClass, rows_columns)
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport load_le, same_bytes
from replica_client.stream.fast.fast_path cimport FIRST_AHEAD, FastPath, header_fits
from replica_client.stream.fast.fast_path_tables cimport FastPathTable, FastPathTables
from replica_client.stream.fast.gtid_runs cimport GtidRuns
from replica_client.stream.transactions.transaction cimport Transaction, pending_transaction
from replica_client.rows.change cimport RowsOfEvent, undecoded_rows

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
