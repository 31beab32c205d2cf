cdef class RowDicts:
    cdef tuple _names
    cdef bytes _ops
    cdef tuple _arguments
    cdef dict _blank
    cdef object _values(self, object row, object sources)
    cdef object _converted(self, int op, object value, object argument)
    cdef object _datetime(self, object value, object reason)
    cdef object _timestamp(self, object value, object reason)
    cdef object _date(self, object value, object reason)
    cdef object _time(self, object value)
