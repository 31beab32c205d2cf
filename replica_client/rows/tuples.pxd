cdef extern from "replica_client/rows/tuples.h":
    object empty_row "rc_empty_row"(object row_type, Py_ssize_t count)
    void put_value "rc_set_value"(object row, Py_ssize_t at, object value)
    void* _item "PyTuple_GET_ITEM"(object row, Py_ssize_t at)

cdef inline object filled(object row, object row_type):
    return row

cdef inline object value_at(object row, Py_ssize_t at):
    return <object>_item(row, at)
