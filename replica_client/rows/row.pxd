cdef class RowLayout:
    cdef readonly tuple names
    cdef readonly dict index
    cdef dict _blank
    cdef object row_type
    cdef dict as_dict(self, object row, bint plain_json)
