from replica_client.protocol.binlog.values.json_reader cimport decode_json_bytes
from replica_client.protocol.binlog.values.temporal cimport Date, DateTime, Temporal, Time, Timestamp
from replica_client.protocol.binlog.values.temporal_storage cimport (
    date_days, datetime2_microseconds, packed_day, time2_microseconds, timestamp2_microseconds)
from replica_client.protocol.codec.memory cimport load_be, load_le
from replica_client.rows.image cimport Column, Cursor, Plan, RowImageDecoder
from replica_client.rows.tuples cimport value_at

cdef object _moment(long long microseconds)

cdef class RowDicts:
    cdef RowImageDecoder _decoder
    cdef tuple _names
    cdef bytes _ops
    cdef tuple _arguments
    cdef bint _sources
    cdef dict _blank
    cdef bytes _ways
    cdef list _known
    cdef dict _update(self, Cursor cursor, Plan first, Plan second)
    cdef dict _image(self, Cursor cursor, Plan plan, object reasons)
    cdef object _value(self, Column column, bytes source, Py_ssize_t offset, Py_ssize_t length)
    cdef object _general(self, Column column, const unsigned char* data, Py_ssize_t offset,
                         Py_ssize_t length)
    cdef object _of_microseconds(self, Column column, long long microseconds)
    cdef object _of_number(self, Column column, unsigned long long number,
                           const unsigned char* data, Py_ssize_t offset, Py_ssize_t length)
    cdef object _values(self, object row, object sources)
    cdef object _converted(self, int op, object value, object argument)
    cdef object _datetime(self, object value, object reason)
    cdef object _timestamp(self, object value, object reason)
    cdef object _date(self, object value, object reason)
    cdef object _time(self, object value)
