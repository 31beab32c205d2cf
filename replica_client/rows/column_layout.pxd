from replica_client.protocol.codec.memory cimport longs
from replica_client.rows.column_sink cimport ColumnSink
from replica_client.rows.image cimport Plan
from replica_client.rows.sink_ops cimport NO_STEP, OP_UNKNOWN

cdef class Layout:
    cdef Plan plan
    cdef list sinks
    cdef list missing
    cdef int absent
    cdef Py_ssize_t null_size
    cdef unsigned long long null_mask
    cdef Py_ssize_t count
    cdef Py_ssize_t images
    cdef bytearray _slots
    cdef void** slots
    cdef bytearray _steps
    cdef long long* steps
