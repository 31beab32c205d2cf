cdef extern from "replica_client/protocol/codec/ascii_text.h":
    object text_of "rc_text_of"(const unsigned char* data, Py_ssize_t offset, Py_ssize_t size)
