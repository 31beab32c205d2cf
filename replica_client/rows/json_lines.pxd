from replica_client.protocol.codec.memory cimport copy_bytes, put_literal
from replica_client.rows.change cimport RowsOfEvent
from replica_client.rows.image cimport Column, Plan, RowImageDecoder
from replica_client.rows.row_lines cimport RowLines, TableHead

cdef class JsonHead(TableHead):
    pass

cdef class JsonLines(RowLines):
    cdef str _file_known
    cdef bytes _file_text
    cdef str _gtid_known
    cdef bytes _gtid_text
    cdef bytes _start
    cdef bytes _middle
    cdef list _names
    cdef bytes _cut_from(self, Py_ssize_t begun)
    cdef Py_ssize_t _object(
        self, RowImageDecoder decoder, Plan plan, const unsigned char* data, Py_ssize_t nulls,
        Py_ssize_t end) except -1
