# cython: boundscheck=False, wraparound=False, cdivision=True
# The compiled form of the functions in crc.py for events in one buffer, inlined where used.

cdef extern from "replica_client/protocol/codec/crc.h":
    size_t rc_crc_valid_until(
        const unsigned char* data, const long long* marks, size_t first, size_t last) noexcept nogil
    size_t rc_crc_cut(
        const unsigned char* data, size_t at, size_t end, long long* marks, size_t last, size_t room,
        size_t most, const unsigned char* stops) noexcept nogil

cdef inline Py_ssize_t valid_until(
    const unsigned char* data, const long long* marks, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    return <Py_ssize_t>rc_crc_valid_until(data, marks, first, last)

cdef inline Py_ssize_t cut_valid(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t end, long long* marks, Py_ssize_t last,
    Py_ssize_t room, long long most, const unsigned char* stops
) noexcept nogil:
    return <Py_ssize_t>rc_crc_cut(data, at, end, marks, last, room, <size_t>most, stops)
