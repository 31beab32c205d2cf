from replica_client.protocol.codec.memory cimport copy_bytes, load_le
from replica_client.rows.image cimport Column, RowImageDecoder

cdef class SplicePlan:
    cdef list columns
    cdef list sources
    cdef bytes bitmap
    cdef bint keeps_any
    cdef Py_ssize_t null_size
    cdef Py_ssize_t new_null_size

cdef class ImageSplicer:
    cdef RowImageDecoder _decoder
    cdef tuple _sources
    cdef int _width
    cdef bytes _first
    cdef Py_ssize_t _first_count
    cdef bytes _last
    cdef Py_ssize_t _last_count
    cdef dict _plans
    cdef SplicePlan _plan(self, bytes bitmap)
    cdef bytearray _out
    cdef Py_ssize_t _used
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int _copy(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t size) except -1
    cdef Py_ssize_t _image(self, bytes data, Py_ssize_t offset, SplicePlan plan, list values) except -1
