# cython: boundscheck=False, wraparound=False, cdivision=True
# The compiled form of memory.py: what every value of the hot path goes through, inlined where used.
from libc.string cimport memcmp, memcpy, memset

cdef inline unsigned long long load_le(
    const unsigned char* data, Py_ssize_t offset, int size
) noexcept nogil:
    cdef const unsigned char* p = data + offset
    cdef unsigned long long value
    cdef int i
    if size == 4:
        return p[0] | <unsigned int>p[1] << 8 | <unsigned int>p[2] << 16 | <unsigned int>p[3] << 24
    if size == 1:
        return p[0]
    if size == 2:
        return p[0] | <unsigned int>p[1] << 8
    if size == 8:
        return (
            <unsigned long long>p[0] | <unsigned long long>p[1] << 8
            | <unsigned long long>p[2] << 16 | <unsigned long long>p[3] << 24
            | <unsigned long long>p[4] << 32 | <unsigned long long>p[5] << 40
            | <unsigned long long>p[6] << 48 | <unsigned long long>p[7] << 56
        )
    if size == 3:
        return p[0] | <unsigned int>p[1] << 8 | <unsigned int>p[2] << 16
    value = 0
    for i in range(size - 1, -1, -1):
        value = value << 8 | p[i]
    return value

cdef inline unsigned long long load_be(
    const unsigned char* data, Py_ssize_t offset, int size
) noexcept nogil:
    cdef const unsigned char* p = data + offset
    cdef unsigned long long value
    cdef int i
    if size == 4:
        return p[3] | <unsigned int>p[2] << 8 | <unsigned int>p[1] << 16 | <unsigned int>p[0] << 24
    if size == 8:
        return (
            <unsigned long long>p[7] | <unsigned long long>p[6] << 8
            | <unsigned long long>p[5] << 16 | <unsigned long long>p[4] << 24
            | <unsigned long long>p[3] << 32 | <unsigned long long>p[2] << 40
            | <unsigned long long>p[1] << 48 | <unsigned long long>p[0] << 56
        )
    if size == 5:
        return (
            p[4] | <unsigned int>p[3] << 8 | <unsigned int>p[2] << 16 | <unsigned int>p[1] << 24
            | <unsigned long long>p[0] << 32
        )
    value = 0
    for i in range(size):
        value = value << 8 | p[i]
    return value

cdef inline long long load_signed(
    const unsigned char* data, Py_ssize_t offset, int size
) noexcept nogil:
    cdef int shift = 64 - 8 * size
    return <long long>(load_le(data, offset, size) << shift) >> shift

cdef inline void copy_bytes(
    unsigned char* target, Py_ssize_t to, const unsigned char* data, Py_ssize_t offset,
    Py_ssize_t size,
) noexcept nogil:
    memcpy(target + to, data + offset, size)

cdef inline void fill_bytes(
    unsigned char* target, Py_ssize_t to, int byte, Py_ssize_t size
) noexcept nogil:
    memset(target + to, byte, size)

cdef inline bint same_bytes(
    const unsigned char* a, Py_ssize_t a_at, const unsigned char* b, Py_ssize_t b_at,
    Py_ssize_t size,
) noexcept nogil:
    return memcmp(a + a_at, b + b_at, size) == 0

cdef inline bint utf8_ok(const unsigned char* data, Py_ssize_t offset, Py_ssize_t size) noexcept nogil:
    cdef const unsigned char* p = data + offset
    cdef Py_ssize_t i = 0
    cdef unsigned long long word, other
    cdef unsigned long long high = (<unsigned long long>0x80808080U << 32) | 0x80808080U
    cdef unsigned char lead, second
    cdef Py_ssize_t more
    while True:
        while i + 16 <= size:
            memcpy(&word, p + i, 8)
            memcpy(&other, p + i + 8, 8)
            if (word | other) & high:
                break
            i += 16
        while i < size and p[i] < 0x80:
            i += 1
        if i == size:
            return True
        # Text that is not ASCII seldom has 16 ASCII characters in a row.
        while i < size and p[i] >= 0x80:
            lead = p[i]
            if lead < 0xC2:
                return False
            if lead < 0xE0:
                if i + 1 >= size or p[i + 1] & 0xC0 != 0x80:
                    return False
                i += 2
                continue
            if lead < 0xF0:
                if i + 2 >= size:
                    return False
                second = p[i + 1]
                if (
                    second & 0xC0 != 0x80 or p[i + 2] & 0xC0 != 0x80
                    or (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F)
                ):
                    return False
                i += 3
                continue
            if lead > 0xF4 or i + 3 >= size:
                return False
            second = p[i + 1]
            if (
                second & 0xC0 != 0x80 or p[i + 2] & 0xC0 != 0x80 or p[i + 3] & 0xC0 != 0x80
                or (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F)
            ):
                return False
            i += 4
