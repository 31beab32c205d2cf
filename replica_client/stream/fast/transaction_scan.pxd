from replica_client.protocol.binlog.layout cimport (
    ARTIFICIAL_FLAG, EVENT_SIZE_OFFSET, FLAGS_OFFSET, HEADER_SIZE, MARIADB_FIELDS_OFFSET,
    MARIADB_FLAGS_OFFSET, MARIADB_UNUSUAL, TIMESTAMP_OFFSET, TYPE_OFFSET, EventClass)
from replica_client.protocol.codec.memory cimport load_le
from replica_client.stream.position.groups cimport Ending, State, control_of, step

cdef class TransactionScan:
    cdef readonly long long position
    cdef readonly int reason
    cdef int _state
    cdef int _tail
    cdef long long _step
    cdef long long _start
    cdef long long _timestamp
    cdef long long _block_start
    cdef long long _block_end
    cdef long long _block_timestamp
    cdef int _class(
        self, const unsigned char* raw, long long at, long long size, long long ready,
        int event_class) noexcept
    cdef object _emit(self)
