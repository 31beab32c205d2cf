from replica_client.protocol.codec.ascii_text cimport text_of
from replica_client.protocol.codec.memory cimport load_le, load_signed, same_bytes

cpdef object decode_json_value(bytes data)
cpdef object decode_json_bytes(bytes data, object convert)

cdef class JsonValueReader:
    cdef bytes _source
    cdef const unsigned char* _data
    cdef long long _budget
    cdef object _convert
    cdef object _container(self, int kind, Py_ssize_t start, Py_ssize_t limit, int depth)
    cdef object _value(self, bint large, Py_ssize_t entry, Py_ssize_t start, long long header,
                       Py_ssize_t end, int depth)
    cdef object _value_at(self, int code, Py_ssize_t at, Py_ssize_t end)
    cdef object _text(self, Py_ssize_t at, Py_ssize_t length)
    cdef object _key(self, Py_ssize_t at, Py_ssize_t length)
