from replica_client.protocol.binlog.values.decimal cimport decimal_at
from replica_client.protocol.binlog.values.json_binary cimport new_document
from replica_client.protocol.binlog.values.numbers cimport double_at, float_at
from replica_client.protocol.binlog.values.temporal_storage cimport date_of, datetime2_of, time2_of, timestamp2_of
from replica_client.protocol.codec.ascii_text cimport text_of
from replica_client.protocol.codec.memory cimport load_be, load_le, load_signed
from replica_client.rows.tuples cimport empty_row, filled, put_value

cdef class Column:
    cdef int op
    cdef int size
    cdef int prefix
    cdef int precision
    cdef int digits
    cdef Py_ssize_t length
    cdef Py_ssize_t target
    cdef Py_ssize_t json_index
    cdef bint as_python
    cdef str name
    cdef object convert
    cdef tuple enumeration
    cdef tuple labels
    cdef dict sets
    cdef bytes key
    cdef Py_ssize_t key_size
    cdef dict texts
    cdef bytes plain_key
    cdef bint plain_odd

cdef class Plan:
    cdef list columns
    cdef Py_ssize_t null_size
    cdef tuple missing

cdef class Cursor:
    cdef bytes data
    cdef Py_ssize_t start
    cdef Py_ssize_t offset
    cdef Py_ssize_t end

cdef class RowImageDecoder:
    cdef readonly object shape
    cdef readonly object options
    cdef readonly tuple column_names
    cdef object _row_type
    cdef Py_ssize_t _width
    cdef list _columns
    cdef Py_ssize_t _json_count
    cdef bint _keep_diffs
    cdef dict _plans
    cdef object lines
    cdef object __weakref__
    cdef Plan _plan(self, bytes bitmap)
    cdef tuple _row(self, Cursor cursor, Plan before, Plan after, bint insert, bint partial)
    cdef object _image(self, Cursor cursor, Plan plan, bytes partial_bits, object before)
    cdef object _value(self, Column column, const unsigned char* data, Py_ssize_t offset,
                       Py_ssize_t length)
    cdef object _set(self, Column column, object bits)
