cimport cython
from replica_client.protocol.binlog.layout cimport (
    ARTIFICIAL_FLAG, EVENT_SIZE_OFFSET, FLAGS_OFFSET, GTID_CLOCK_OFFSET, GTID_NUMBER_OFFSET,
    GTID_NUMBER_SIGN_OFFSET, GTID_TIMESTAMP_OFFSET, GTID_TIMESTAMP_SIZE, GTID_VERSION_SIZE, HEADER_SIZE,
    LENGTH_8_BYTES, LENGTH_ERROR, LENGTH_NULL, LOGICAL_CLOCK, MARIADB_COMMIT_ID, MARIADB_COMMIT_ID_SIZE,
    MARIADB_FIELDS_OFFSET, MARIADB_FLAGS_OFFSET, MARIADB_GTID_SIZE, MARIADB_SEQUENCE_OFFSET,
    MARIADB_SEQUENCE_SIGN_OFFSET, MARIADB_THREAD_ID, MARIADB_THREAD_ID_SIZE, MARIADB_UNUSUAL,
    NEXT_POSITION_OFFSET, QUERY_POST_HEADER_SIZE, SIGN_BIT, TYPE_OFFSET, XID_SIZE, EventClass, query_text)
from replica_client.protocol.codec.crc cimport valid_until
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport load_le, longs
from replica_client.stream.position.groups cimport Ending, State, control_of, is_plain_statement, step
from replica_client.stream.fast.fast_path_tables cimport FastPathTables
from replica_client.stream.fast.gtid_runs cimport GtidRuns
from replica_client.stream.fast.tagged_gtid cimport TaggedGtid

cdef Py_ssize_t FIRST_AHEAD

cdef bint header_fits(
    const unsigned char* raw, Py_ssize_t start, Py_ssize_t size, Py_ssize_t tail, long long after,
    bint in_file, bint tells_ends, bint states_end) noexcept

cdef class FastPath:
    cdef object _feed
    cdef object _assembler
    cdef FastPathTables _tables
    cdef GtidRuns _gtids
    cdef TaggedGtid _tagged
    cdef bint _in_file
    cdef const unsigned char* _classes
    cdef const unsigned char* _forms
    cdef bint _tells_ends
    cdef object _format
    cdef bint _works
    cdef readonly bint checks
    cdef Py_ssize_t _tail
    cdef long long _max_event_size
    cdef readonly bint took
    cdef readonly bint incomplete
    cdef object _fault
    cdef str _file
    cdef long long _part_size
    cdef bint _passes_over
    cdef bint _takes_statements
    cdef Py_ssize_t _last_count
    cdef EventQueue _inner
    cdef Py_ssize_t _inside
    cdef long long _end
    cdef long long _verified
    cdef long long _verified_begin
    cdef Py_ssize_t _valid
    cdef Py_ssize_t _ahead
    cdef readonly bint defers
    cdef bytearray _marks_memory
    cdef long long* _deferred
    cdef Py_ssize_t _deferred_room
    cdef Py_ssize_t _waiting
    cdef Py_ssize_t _settled
    cdef Py_ssize_t _failed
    cdef int _defer(self, Py_ssize_t first, Py_ssize_t count) except -1
    cdef int _settle(self, EventQueue events) except -1
    cdef int _take_deferred(self) except -1
    cdef bint _is_statement(
        self, const unsigned char* raw, Py_ssize_t first, Py_ssize_t start, Py_ssize_t end) noexcept
    cdef bint _is_large(self, long long size) noexcept
    cdef bint _look_inside(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef Py_ssize_t _look_ahead(self, EventQueue events, Py_ssize_t first) except -1
    cdef Py_ssize_t _count(self, EventQueue events, Py_ssize_t first, long long offset) except -1
    @cython.final
    cdef bint _names(self, int code) noexcept
    @cython.final
    cdef Py_ssize_t _pass_over(
        self, EventQueue events, Py_ssize_t first, long long offset, long long stop) except -1
    cdef int _apply(
        self, EventQueue events, Py_ssize_t first, Py_ssize_t count, long long offset) except -1
    cdef int _join(self, EventQueue events, Py_ssize_t first) except -1
