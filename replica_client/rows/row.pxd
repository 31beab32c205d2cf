from replica_client.protocol.binlog.values.json_reader cimport decode_json_value
from replica_client.rows.tuples cimport value_at

cdef class RowLayout:
    cdef readonly tuple names
    cdef readonly dict index
    cdef dict _blank
    cdef object row_type
    cdef dict as_dict(self, object row, bint plain_json)
