# The compiled form of tuples.py. The places of a tuple that was just made are null pointers, which
# nothing sees but its deallocation: the collector does not know of it. It need not later, either: the
# values of columns refer to nothing, so no cycle leads through a row.
cdef extern from *:
    """
    static inline PyObject* rc_empty_row(PyObject* type, Py_ssize_t count) {
        PyObject* row = ((PyTypeObject*)type)->tp_alloc((PyTypeObject*)type, count);
        if (row != NULL) {
            PyObject_GC_UnTrack(row);
    #if PY_VERSION_HEX >= 0x030E0000
            ((PyTupleObject*)row)->ob_hash = -1;
    #endif
        }
        return row;
    }
    static inline void rc_set_value(PyObject* row, Py_ssize_t at, PyObject* value) {
        Py_INCREF(value);
        PyTuple_SET_ITEM(row, at, value);
    }
    """
    object empty_row "rc_empty_row"(object row_type, Py_ssize_t count)
    void put_value "rc_set_value"(object row, Py_ssize_t at, object value)
    void* _item "PyTuple_GET_ITEM"(object row, Py_ssize_t at)

cdef inline object filled(object row, object row_type):
    return row

cdef inline object value_at(object row, Py_ssize_t at):
    return <object>_item(row, at)
