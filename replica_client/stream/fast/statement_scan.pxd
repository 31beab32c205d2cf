from replica_client.protocol.binlog.layout cimport (
    ARTIFICIAL_FLAG, FLAGS_OFFSET, HEADER_SIZE, NEXT_POSITION_OFFSET, TYPE_OFFSET, EventClass)
from replica_client.protocol.codec.event_queue cimport EventQueue
from replica_client.protocol.codec.memory cimport load_le
from replica_client.stream.position.groups cimport control_of

cdef class StatementScan:
    cdef readonly long long size
    cdef readonly Py_ssize_t whole
    cdef readonly long long whole_size
