/* The C of tuples.pxd; tuples.py has the same functions for plain Python. */
#ifndef REPLICA_CLIENT_ROWS_TUPLES_H
#define REPLICA_CLIENT_ROWS_TUPLES_H



/* The compiled form of tuples.py. The positions of a tuple that was just made are null pointers,
   which nothing sees but its deallocation: the collector does not know of it. It need not later,
   either: the values of columns refer to nothing, so no cycle leads through a row. */
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

#endif
