from replica_client.protocol.binlog.layout cimport (
    GTID_NUMBER_OFFSET, GTID_SID_OFFSET, GTID_SID_SIZE, GTID_TIMESTAMP_OFFSET, GTID_TIMESTAMP_SIZE,
    HEADER_SIZE, MARIADB_COMMIT_ID, MARIADB_COMMIT_ID_SIZE, MARIADB_DOMAIN_OFFSET, MARIADB_FIELDS_OFFSET,
    MARIADB_FLAGS_OFFSET, MARIADB_SEQUENCE_OFFSET, MARIADB_THREAD_ID_SIZE, SERVER_ID_OFFSET, TYPE_OFFSET)
from replica_client.protocol.codec.memory cimport load_le
from replica_client.stream.fast.tagged_gtid cimport TaggedGtid

cdef class GtidRuns:
    cdef list found
    cdef long long last
    cdef bytes prefix
    cdef long long number
    cdef long long timestamp_us
    cdef long long thread
    cdef long long _first
    cdef bytes _sid
    cdef bytes _tag
    cdef unsigned long long _sid_first
    cdef unsigned long long _sid_second
    cdef int _kind
    cdef long long _domain
    cdef long long _server
    cdef bytes _prefix
    cdef TaggedGtid _tagged
    cdef Py_ssize_t _read_at
    cdef int read(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int _identify(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _is_other(self, int kind, const unsigned char* sid, Py_ssize_t at) noexcept
    cdef int _mariadb(self, long long domain, long long server) except -1
    cdef int join(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) except -1
