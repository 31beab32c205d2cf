from replica_client.protocol.binlog.layout cimport (
    LENGTH_NULL, PARTITION_INSERT_SIZE, PARTITION_UPDATE_SIZE, ROWS_COMPRESSED, ROWS_EXTRA, ROWS_EXTRA_SIZE,
    ROWS_KIND, ROWS_OTHER, ROWS_POST_HEADER_SIZE, TABLE_ID_SIZE, TABLE_MAP_POST_HEADER_SIZE, UPDATE)
from replica_client.protocol.codec.memory cimport load_le, same_bytes
from replica_client.rows.column_layout cimport Layout
from replica_client.rows.columnar cimport ColumnarRows
from replica_client.rows.runs cimport EventRuns

cdef class FastPathTable:
    cdef bytes content
    cdef const unsigned char* text
    cdef Py_ssize_t size
    cdef object table_map
    cdef object builder
    cdef ColumnarRows rows
    cdef EventRuns runs
    cdef Py_ssize_t column_count
    cdef bint is_wanted
    cdef bytes before
    cdef bytes after
    cdef Layout before_layout
    cdef Layout after_layout
    cdef bytes gtid
    cdef bytes file
    cdef long long era
    cdef long long number
    cdef long long turn
    cdef long long switch
    cdef int file_text
    cdef int version_text
    cdef int gtid_text

cdef class FastPathTables:
    cdef object _feed
    cdef object _assembler
    cdef object _consumers
    cdef bint _full_rows
    cdef bint wanted
    cdef bytearray _forms_memory
    cdef unsigned char* _forms
    cdef object _revision
    cdef object _generation
    cdef object _tables
    cdef dict _by_id
    cdef list _near
    cdef list _near_used
    cdef object _decoder
    cdef long long _announced
    cdef bytearray _slots_memory
    cdef void** _slots
    cdef long long _turn
    cdef FastPathTable of_map(self, const unsigned char* raw, Py_ssize_t start, Py_ssize_t end)
    cdef bint _bring_near(self, long long number) except -1
    cdef void* _near_slot(self, long long number) noexcept
    cdef bint is_near(self, const unsigned char* raw, Py_ssize_t start, Py_ssize_t end) noexcept
    cdef FastPathTable known(self, long long number)
    cdef bint adopt(self, long long number) except -1
    cdef bint rows_ok(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code) except -1
