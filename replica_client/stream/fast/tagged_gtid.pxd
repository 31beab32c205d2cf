from replica_client.protocol.binlog.layout cimport (
    GTID_SID_SIZE, GTID_TIMESTAMP_SIZE, GTID_VERSION_SIZE, LENGTH_3_BYTES, LENGTH_NULL)
from replica_client.protocol.codec.memory cimport load_le

cdef class TaggedGtid:
    cdef bytearray _sid_memory
    cdef unsigned char* sid
    cdef long long number
    cdef long long timestamp_us
    cdef Py_ssize_t tag_start
    cdef Py_ssize_t tag_size
    cdef Py_ssize_t _at
    cdef Py_ssize_t _end
    cdef bint _wrong
    cdef bint read(self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) noexcept
    cdef long long _unsigned(self, const unsigned char* raw) noexcept
    cdef void _read_sid(self, const unsigned char* raw) noexcept
    cdef void _read_tag(self, const unsigned char* raw) noexcept

cdef class GtidTail:
    cdef long long immediate
    cdef long long original
    cdef long long length
    cdef long long version
    cdef long long original_version
    cdef Py_ssize_t read(
        self, const unsigned char* raw, Py_ssize_t at, Py_ssize_t end) noexcept
