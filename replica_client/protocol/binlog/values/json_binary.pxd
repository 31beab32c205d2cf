from replica_client.protocol.binlog.values.json_reader cimport decode_json_value

cdef class JsonDocument:
    cdef readonly bytes data
    cdef str _text

cdef JsonDocument new_document(const unsigned char* data, Py_ssize_t offset, Py_ssize_t size)
