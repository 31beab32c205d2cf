# cython: boundscheck=False, wraparound=False, cdivision=True
# The compiled form of memory.py: what every value of the hot path goes through, inlined where used.
from libc.string cimport memcmp, memcpy, memmove, memset

# CRC-32 with zlib's polynomial: by carry-less multiplication where the processor has it (16 bytes
# are folded over 64 at a time until 16 are left, which stand for all before them), else and for the
# rest eight bytes at a time by table.
cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    static uint32_t rc_crc_table[8][256];
    static int rc_crc_ready = 0;
    static void rc_crc_prepare(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
            rc_crc_table[0][i] = c;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int t = 1; t < 8; t++)
                rc_crc_table[t][i] = (rc_crc_table[t - 1][i] >> 8)
                    ^ rc_crc_table[0][rc_crc_table[t - 1][i] & 255];
        rc_crc_ready = 1;
    }
    static uint32_t rc_crc_by_table(uint32_t c, const unsigned char* p, size_t n) {
        while (n >= 8) {
            uint32_t a = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16
                              | (uint32_t)p[3] << 24);
            c = rc_crc_table[7][a & 255] ^ rc_crc_table[6][a >> 8 & 255]
              ^ rc_crc_table[5][a >> 16 & 255] ^ rc_crc_table[4][a >> 24]
              ^ rc_crc_table[3][p[4]] ^ rc_crc_table[2][p[5]]
              ^ rc_crc_table[1][p[6]] ^ rc_crc_table[0][p[7]];
            p += 8;
            n -= 8;
        }
        while (n--) c = (c >> 8) ^ rc_crc_table[0][(c ^ *p++) & 255];
        return c;
    }
    #if defined(__x86_64__) && defined(__GNUC__)
    #define RC_CRC_FOLDS 1
    #include <immintrin.h>
    /* x^(8 * distance + 32 or - 32) mod P, bit-reflected and shifted by one, for 64 and 16 bytes. */
    __attribute__((target("pclmul,sse4.1")))
    static inline __m128i rc_crc_fold(__m128i x, __m128i k) {
        return _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11));
    }
    __attribute__((target("pclmul,sse4.1")))
    static uint32_t rc_crc_folded(uint32_t c, const unsigned char* p, size_t n) {
        const __m128i far = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
        const __m128i near = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i* v = (const __m128i*)p;
        __m128i a = _mm_xor_si128(_mm_loadu_si128(v), _mm_cvtsi32_si128((int)c));
        __m128i b = _mm_loadu_si128(v + 1), d = _mm_loadu_si128(v + 2), e = _mm_loadu_si128(v + 3);
        unsigned char rest[16];
        p += 64;
        n -= 64;
        while (n >= 64) {
            v = (const __m128i*)p;
            a = _mm_xor_si128(rc_crc_fold(a, far), _mm_loadu_si128(v));
            b = _mm_xor_si128(rc_crc_fold(b, far), _mm_loadu_si128(v + 1));
            d = _mm_xor_si128(rc_crc_fold(d, far), _mm_loadu_si128(v + 2));
            e = _mm_xor_si128(rc_crc_fold(e, far), _mm_loadu_si128(v + 3));
            p += 64;
            n -= 64;
        }
        b = _mm_xor_si128(rc_crc_fold(a, near), b);
        d = _mm_xor_si128(rc_crc_fold(b, near), d);
        e = _mm_xor_si128(rc_crc_fold(d, near), e);
        while (n >= 16) {
            e = _mm_xor_si128(rc_crc_fold(e, near), _mm_loadu_si128((const __m128i*)p));
            p += 16;
            n -= 16;
        }
        _mm_storeu_si128((__m128i*)rest, e);
        return rc_crc_by_table(rc_crc_by_table(0, rest, 16), p, n);
    }
    #endif
    static uint32_t rc_crc32(const unsigned char* p, size_t n) {
        if (!rc_crc_ready) rc_crc_prepare();
    #ifdef RC_CRC_FOLDS
        if (n >= 64 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
            return ~rc_crc_folded(0xFFFFFFFFu, p, n);
    #endif
        return ~rc_crc_by_table(0xFFFFFFFFu, p, n);
    }
    """
    unsigned int rc_crc32(const unsigned char* data, size_t size) noexcept nogil

cdef inline unsigned int checksum(
    const unsigned char* data, Py_ssize_t offset, Py_ssize_t size
) noexcept nogil:
    return rc_crc32(data + offset, size)

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

cdef inline void move_bytes(
    unsigned char* target, Py_ssize_t to, Py_ssize_t offset, Py_ssize_t size
) noexcept nogil:
    memmove(target + to, target + offset, size)

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
