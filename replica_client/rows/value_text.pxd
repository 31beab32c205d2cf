from replica_client.protocol.binlog.values.decimal cimport put_decimal
from replica_client.protocol.binlog.values.json_writer cimport JsonTextWriter
from replica_client.protocol.binlog.values.numbers cimport put_double, put_float
from replica_client.protocol.binlog.values.temporal_storage cimport put_date, put_datetime2, put_time2, put_timestamp2
from replica_client.protocol.codec.memory cimport (
    copy_bytes, copy_quotable, load_be, load_le, load_signed, put_digits, put_escaped, put_signed, utf8_ok)
from replica_client.rows.image cimport Column, RowImageDecoder

cdef class ValueText:
    cdef bytearray _memory
    cdef unsigned char* out
    cdef Py_ssize_t room
    cdef readonly Py_ssize_t used
    cdef JsonTextWriter _documents
    cdef bint is_null_document
    cdef int reserve(self, Py_ssize_t size) except -1
    cdef int _grow(self, Py_ssize_t size) except -1
    cdef int put(self, bytes text) except -1
    cdef int put_number(self, long long number) except -1
    cdef int _put_escaped(
        self, const unsigned char* data, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef int _put_base64(
        self, const unsigned char* data, Py_ssize_t at, Py_ssize_t stop) except -1
    cdef int _put_document(
        self, const unsigned char* data, Py_ssize_t offset, Py_ssize_t length) except -1
    cdef int _put_other(
        self, RowImageDecoder decoder, Column column, const unsigned char* data,
        Py_ssize_t offset, Py_ssize_t length) except -1
    cdef int put_value(
        self, RowImageDecoder decoder, Column column, const unsigned char* data,
        Py_ssize_t offset, Py_ssize_t length) except -1
