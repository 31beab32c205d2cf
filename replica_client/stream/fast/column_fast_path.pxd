from replica_client.protocol.binlog.layout cimport (
    DELETE, HEADER_SIZE, INSERT, ROWS_KIND, TABLE_ID_SIZE, TIMESTAMP_OFFSET, TYPE_OFFSET, UPDATE, EventClass,
    rows_columns)
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport load_le, same_bytes
from replica_client.protocol.codec.turns cimport Turn
from replica_client.stream.fast.fast_path cimport FastPath
from replica_client.stream.fast.fast_path_tables cimport FastPathTable, FastPathTables
from replica_client.stream.fast.gtid_runs cimport GtidRuns
from replica_client.rows.column_layout cimport Layout
from replica_client.rows.columnar cimport ColumnarRows
from replica_client.rows.runs cimport EventRuns

cdef struct RowsRecord:
    void* table
    void* rows
    void* runs
    void* before
    void* after
    Py_ssize_t at
    Py_ssize_t end
    Py_ssize_t transaction
    Py_ssize_t index
    long long offset
    long long start
    long long timestamp_us
    long long gtid_number
    long long row_index
    int code
    int kind
    int file_text
    int version_text
    int gtid_text
    bint begun

ctypedef RowsRecord* RecordPointer

cdef class ColumnFastPath(FastPath):
    cdef object _batches
    cdef Turn _turn
    cdef list _ready
    cdef dict _last_tables
    cdef long long _switch
    cdef str _named
    cdef bytes _file_text
    cdef bytes _version_text
    cdef bytearray _records_memory
    cdef RowsRecord* _records
    cdef Py_ssize_t _records_room
    cdef Py_ssize_t _noted
    cdef Py_ssize_t _next
    cdef const unsigned char* _raw
    cdef list _kept
    cdef list _tables_of_turn
    cdef int _note(
        self, FastPathTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
        long long offset, long long start, Py_ssize_t index, long long timestamp_us, bytes gtid,
        long long gtid_number) except -1
    cdef Py_ssize_t _bitmaps(
        self, FastPathTable table, const unsigned char* raw, Py_ssize_t at, int kind) except -1
    cdef int _use_bitmap(self, FastPathTable table, bytes bitmap, bint is_after) except -1
    cdef int _decode_noted(self) except -1
    cdef int _take_noted(self) except -1 nogil
    cdef int _take_unusual(self, FastPathTable table, bint is_full) except -1
    cdef int _take_rest(
        self, FastPathTable table, int code, int kind, long long offset, long long start,
        Py_ssize_t index, long long timestamp_us, long long gtid_number,
        Py_ssize_t row_index, bint is_full) except -1
    cdef int _append(
        self, FastPathTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
        long long offset, long long start, Py_ssize_t index, long long timestamp_us, bytes gtid,
        long long gtid_number) except -1
