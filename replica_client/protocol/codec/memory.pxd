# cython: boundscheck=False, wraparound=False, cdivision=True
# The compiled form of memory.py: functions for every value of the hot path, inlined where used.
from libc.string cimport memcpy, memmove, memset

cdef inline long long* longs(bytearray memory):
    cdef unsigned char* raw = memory
    return <long long*>raw

cdef inline unsigned char* arrow_bytes(object buffer):
    return <unsigned char*><size_t>buffer.address

cdef inline int* arrow_ints(object buffer):
    return <int*><size_t>buffer.address

cdef extern from "replica_client/protocol/codec/memory.h":
    unsigned long long rc_load_le(const unsigned char* data, int size) noexcept nogil
    unsigned long long rc_load_be(const unsigned char* data, int size) noexcept nogil
    unsigned int rc_power_of_ten(int digits) noexcept nogil

cdef inline unsigned long long load_le(
    const unsigned char* data, Py_ssize_t offset, int size
) noexcept nogil:
    return rc_load_le(data + offset, size)

cdef inline unsigned long long load_be(
    const unsigned char* data, Py_ssize_t offset, int size
) noexcept nogil:
    return rc_load_be(data + offset, size)

cdef inline unsigned int power_of_ten(int digits) noexcept nogil:
    return rc_power_of_ten(digits)

cdef inline long long load_signed(
    const unsigned char* data, Py_ssize_t offset, int size
) noexcept nogil:
    cdef int shift = 64 - 8 * size
    return <long long>(load_le(data, offset, size) << shift) >> shift

cdef extern from "replica_client/protocol/codec/memory.h":
    const unsigned char* rc_there(const unsigned char* data, long long at) noexcept nogil
    int rc_clear_bit(unsigned char* bits, size_t row, long long at) noexcept nogil

cdef inline unsigned long long load_le_there(
    const unsigned char* data, long long at, int size
) noexcept nogil:
    return rc_load_le(rc_there(data, at), size)

cdef inline int clear_bit(unsigned char* bits, Py_ssize_t row, long long at) noexcept nogil:
    return rc_clear_bit(bits, row, at)

cdef inline void store_number(
    unsigned char* values, Py_ssize_t row, int width, unsigned long long number
) noexcept nogil:
    if width == 8:
        (<unsigned long long*> values)[row] = number
    elif width == 4:
        (<unsigned int*> values)[row] = <unsigned int> number
    elif width == 2:
        (<unsigned short*> values)[row] = <unsigned short> number
    else:
        values[row] = <unsigned char> number

cdef inline void copy_bytes(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset,
    Py_ssize_t size,
) noexcept nogil:
    memcpy(target + to, data + offset, size)

cdef inline void move_bytes(
    unsigned char* target, Py_ssize_t to, Py_ssize_t offset, Py_ssize_t size
) noexcept nogil:
    memmove(target + to, target + offset, size)

cdef inline void fill_bytes(
    unsigned char* target, Py_ssize_t to, int byte, Py_ssize_t size
) noexcept nogil:
    memset(target + to, byte, size)

cdef extern from "replica_client/protocol/codec/memory.h":
    bint rc_same(const unsigned char* a, const unsigned char* b, size_t size) noexcept nogil
    void rc_copy_over(unsigned char* to, const unsigned char* data, size_t size) noexcept nogil
    unsigned long long rc_fingerprint(
        const unsigned char* data, size_t size, unsigned long long seed) noexcept nogil

cdef inline bint same_bytes(
    const unsigned char* a, Py_ssize_t a_at, const unsigned char* b, Py_ssize_t b_at,
    Py_ssize_t size,
) noexcept nogil:
    return rc_same(a + a_at, b + b_at, size)

cdef inline void copy_over(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset,
    Py_ssize_t size,
) noexcept nogil:
    rc_copy_over(target + to, data + offset, size)

cdef inline unsigned long long fingerprint(
    const unsigned char* data, Py_ssize_t offset, Py_ssize_t size, unsigned long long seed
) noexcept nogil:
    return rc_fingerprint(data + offset, size, seed)

cdef extern from "replica_client/protocol/codec/memory.h":
    size_t rc_put_literal(unsigned char* to, int literal) noexcept nogil
    size_t rc_put_escaped(unsigned char* to, unsigned char byte) noexcept nogil
    size_t rc_put_digits(unsigned char* to, unsigned long long number) noexcept nogil
    size_t rc_put_ten_thousandths(unsigned char* to, unsigned long long number) noexcept nogil

cdef inline Py_ssize_t put_digits(
    unsigned char* target, Py_ssize_t to, unsigned long long number
) noexcept nogil:
    return to + <Py_ssize_t>rc_put_digits(target + to, number)

cdef inline Py_ssize_t put_literal(
    unsigned char* target, Py_ssize_t to, int literal
) noexcept nogil:
    return to + <Py_ssize_t>rc_put_literal(target + to, literal)

cdef inline Py_ssize_t put_escaped(
    unsigned char* target, Py_ssize_t to, unsigned char byte
) noexcept nogil:
    return to + <Py_ssize_t>rc_put_escaped(target + to, byte)

cdef inline Py_ssize_t put_signed(
    unsigned char* target, Py_ssize_t to, long long number
) noexcept nogil:
    if number >= 0:
        return put_digits(target, to, number)
    target[to] = 45
    return put_digits(target, to + 1, 0 - <unsigned long long>number)

cdef inline Py_ssize_t put_ten_thousandths(
    unsigned char* target, Py_ssize_t to, unsigned long long number
) noexcept nogil:
    return to + <Py_ssize_t>rc_put_ten_thousandths(target + to, number)

cdef extern from "replica_client/protocol/codec/memory.h":
    int rc_copy_quotable(unsigned char* to, const unsigned char* data, size_t size) noexcept nogil
    bint rc_utf8(const unsigned char* data, size_t size) noexcept nogil
    bint rc_copy_utf8(unsigned char* to, const unsigned char* data, size_t size) noexcept nogil
    bint rc_copy_short_utf8(unsigned char* to, const unsigned char* data, size_t size) noexcept nogil

cdef inline bint utf8_ok(const unsigned char* data, Py_ssize_t offset, Py_ssize_t size) noexcept nogil:
    return rc_utf8(data + offset, size)

cdef inline bint copy_utf8(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset,
    Py_ssize_t size,
) noexcept nogil:
    return rc_copy_utf8(target + to, data + offset, size)

cdef inline bint copy_short_utf8(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset,
    Py_ssize_t size,
) noexcept nogil:
    return rc_copy_short_utf8(target + to, data + offset, size)

cdef inline int copy_quotable(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset,
    Py_ssize_t size,
) noexcept nogil:
    return rc_copy_quotable(target + to, data + offset, size)
