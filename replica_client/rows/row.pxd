cdef class RowLayout:
    cdef readonly tuple names
    cdef readonly dict index
    cdef dict _blank
    cdef dict as_dict(self, object row, bint plain_json)
