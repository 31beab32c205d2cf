from replica_client.protocol.binlog.layout cimport (
    EVENT_SIZE_OFFSET, GTID_NUMBER_OFFSET, GTID_SID_OFFSET, GTID_SID_SIZE, GTID_TIMESTAMP_OFFSET,
    GTID_TIMESTAMP_SIZE, HEADER_SIZE, LENGTH_2_BYTES, LENGTH_NULL, MARIADB_DOMAIN_OFFSET,
    MARIADB_FIELDS_OFFSET, MARIADB_SEQUENCE_OFFSET, ROWS_EXTRA_SIZE, ROWS_POST_HEADER_SIZE, SERVER_ID_OFFSET,
    TABLE_ID_SIZE, TABLE_MAP_POST_HEADER_SIZE, TIMESTAMP_OFFSET, TYPE_OFFSET, EventClass)
from replica_client.protocol.codec.memory cimport copy_bytes, load_be, load_le, same_bytes, store_number
from replica_client.stream.position.groups cimport control_of

cdef class KeyTable:
    cdef readonly str database
    cdef readonly str name
    cdef readonly bytes content
    cdef readonly object shape
    cdef readonly int number
    cdef readonly str unfiltered
    cdef public long long inserted
    cdef public long long updated
    cdef public long long deleted
    cdef public long long size
    cdef public long long count
    cdef public unsigned long long low
    cdef public unsigned long long high
    cdef public bint lacks_key
    cdef public int hour
    cdef readonly object keys
    cdef readonly int key_count
    cdef readonly int zone_size
    cdef readonly int lead_size
    cdef int _columns
    cdef int _json_count
    cdef bytes _sizes
    cdef bytes _prefixes
    cdef bytes _slots
    cdef bytearray _hashes
    cdef unsigned char* _values
    cdef long long _capacity
    cdef unsigned long long* _found
    cdef unsigned long long _there
    cdef unsigned long long _last
    cdef readonly bint is_touched
    cdef int _grow(self) except -1

cdef class KeyScan:
    cdef readonly object touched
    cdef readonly object gtid_runs
    cdef readonly object hours
    cdef public long long first_time
    cdef public long long last_time
    cdef public long long commit_us
    cdef public long long floor_size
    cdef public long long floor_rows
    cdef public long long floor_seconds
    cdef object _owner
    cdef int _tail
    cdef dict _by_id
    cdef long long _last_number
    cdef KeyTable _last
    cdef bytearray _sid
    cdef bint _has_run
    cdef bint _is_mariadb
    cdef unsigned long long _run_first
    cdef unsigned long long _run_last
    cdef long long _start
    cdef long long _first
    cdef long long _stamp
    cdef long long _rows
    cdef int _gtid(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, bint mariadb) except -1
    cdef bint _ends(self, long long position, long long stamp) except -1
    cdef bint _committed(self, long long stamp) except -1
    cdef bint _map(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _take_rows(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end, int code, long long stamp,
        Py_ssize_t size) except -1
    cdef bint _take_images(
        self, KeyTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
        const unsigned char* bits, Py_ssize_t before, Py_ssize_t after, int kind, bint partial,
        long long stamp, Py_ssize_t size) except -1
    cdef Py_ssize_t _row(
        self, KeyTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
        const unsigned char* bits, Py_ssize_t before, Py_ssize_t after, int kind,
        bint partial) except? -2
    cdef bint _keep(self, KeyTable table, unsigned long long there, int first) except -1

cdef Py_ssize_t _image(
    KeyTable table, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end,
    const unsigned char* bits, Py_ssize_t bitmap, int first) noexcept
cpdef unsigned long long joined(unsigned long long number, unsigned long long other) noexcept
cdef unsigned long long hash_of(
    const unsigned char* raw, Py_ssize_t at, Py_ssize_t size) noexcept
