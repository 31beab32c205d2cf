# cython: boundscheck=False, wraparound=False, cdivision=True
# The compiled form of memory.py: what every value of the hot path goes through, inlined where used.
from libc.string cimport memcpy, memmove, memset

# CRC-32 with zlib's polynomial: by carry-less multiplication where the processor has it (64 or 256
# bytes are folded over the next ones until 16 are left, which stand for all before them), else and for
# the rest eight bytes at a time by table.
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
        if (n >= 4) {
            uint32_t a = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16
                              | (uint32_t)p[3] << 24);
            c = rc_crc_table[3][a & 255] ^ rc_crc_table[2][a >> 8 & 255]
              ^ rc_crc_table[1][a >> 16 & 255] ^ rc_crc_table[0][a >> 24];
            p += 4;
            n -= 4;
        }
        while (n--) c = (c >> 8) ^ rc_crc_table[0][(c ^ *p++) & 255];
        return c;
    }
    #if defined(__x86_64__) && defined(__GNUC__)
    #define RC_CRC_FOLDS 1
    #include <immintrin.h>
    #if !defined(__clang__) && __GNUC__ >= 9
    #define RC_CRC_WIDE 1
    #define RC_WIDE __attribute__((target("vpclmulqdq,avx512f,avx512vl,avx512bw,pclmul,sse4.1")))
    #endif
    /* What folds over a distance of so many bytes: x^(8 * distance + 32) and x^(8 * distance - 32)
       mod P, bit-reflected and shifted by one. */
    static uint64_t rc_crc_power(int n) {
        uint32_t c = 0x80000000u;
        while (n--) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        return (uint64_t)c << 1;
    }
    enum { RC_FAR, RC_NEAR, RC_LINE, RC_LINE_2, RC_LINE_3, RC_DISTANCES };
    static uint64_t rc_crc_folds[RC_DISTANCES][2];
    static uint64_t rc_crc_half;
    static int rc_crc_lanes = 0;
    #define RC_CRC_FEW 512
    static uint32_t rc_crc_sound[RC_CRC_FEW + 1];
    static void rc_crc_look(void) {
        static const int distances[RC_DISTANCES] = {256, 16, 64, 32, 48};
        for (int i = 0; i < RC_DISTANCES; i++) {
            rc_crc_folds[i][0] = rc_crc_power(8 * distances[i] + 32);
            rc_crc_folds[i][1] = rc_crc_power(8 * distances[i] - 32);
        }
        rc_crc_half = rc_crc_power(64);
        /* With its CRC-32 behind it every message leaves this; less what comes of beginning with ones
           instead of zeros, which depends on how long it is. */
        uint32_t c = 0xFFFFFFFFu;
        for (int i = 0; i <= RC_CRC_FEW; i++) {
            rc_crc_sound[i] = 0xDEBB20E3u ^ c;
            c = (c >> 8) ^ rc_crc_table[0][c & 255];
        }
        if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) rc_crc_lanes = 1;
    #ifdef RC_CRC_WIDE
        if (rc_crc_lanes && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) rc_crc_lanes = 4;
    #endif
    }
    __attribute__((target("pclmul,sse4.1")))
    static inline __m128i rc_crc_by(int distance) {
        return _mm_set_epi64x((int64_t)rc_crc_folds[distance][1], (int64_t)rc_crc_folds[distance][0]);
    }
    __attribute__((target("pclmul,sse4.1")))
    static inline __m128i rc_crc_fold(__m128i x, __m128i k) {
        return _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11));
    }
    /* What takes the first bytes of a vector behind zeros, and the last ones before zeros: read from
       their n-th byte on. */
    static const unsigned char rc_crc_first[32] = {
        128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const unsigned char rc_crc_last[32] = {
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
        128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128};
    /* The rest, when `e` stands for all before `p`, which are 16 bytes or more. */
    __attribute__((target("pclmul,sse4.1")))
    static inline uint32_t rc_crc_rest(__m128i e, const unsigned char* p, size_t n) {
        const __m128i near = rc_crc_by(RC_NEAR), low = _mm_setr_epi32(-1, 0, -1, 0);
        __m128i first, last, rest;
        while (n >= 16) {
            e = _mm_xor_si128(rc_crc_fold(e, near), _mm_loadu_si128((const __m128i*)p));
            p += 16;
            n -= 16;
        }
        if (n) {
            /* The n bytes that are left make the first n of `e` far ones. */
            first = _mm_loadu_si128((const __m128i*)(rc_crc_first + n));
            last = _mm_shuffle_epi8(e, _mm_loadu_si128((const __m128i*)(rc_crc_last + n)));
            rest = _mm_loadu_si128((const __m128i*)(p + n - 16));
            e = _mm_xor_si128(rc_crc_fold(_mm_shuffle_epi8(e, first), near),
                              _mm_blendv_epi8(rest, last, first));
        }
        /* 128 bits to 64, and these to 32 by Barrett's reduction. */
        e = _mm_xor_si128(_mm_srli_si128(e, 8), _mm_clmulepi64_si128(e, near, 0x10));
        e = _mm_xor_si128(_mm_srli_si128(e, 4), _mm_clmulepi64_si128(
            _mm_and_si128(e, low), _mm_cvtsi64_si128((int64_t)rc_crc_half), 0));
        first = _mm_set_epi64x(0x1F7011641, 0x1DB710641);
        rest = _mm_clmulepi64_si128(_mm_and_si128(e, low), first, 0x10);
        rest = _mm_clmulepi64_si128(_mm_and_si128(rest, low), first, 0);
        return (uint32_t)_mm_extract_epi32(_mm_xor_si128(e, rest), 1);
    }
    __attribute__((target("pclmul,sse4.1")))
    static uint32_t rc_crc_short(uint32_t c, const unsigned char* p, size_t n) {
        __m128i e = _mm_loadu_si128((const __m128i*)p);
        return rc_crc_rest(_mm_xor_si128(e, _mm_cvtsi32_si128((int)c)), p + 16, n - 16);
    }
    __attribute__((target("pclmul,sse4.1")))
    static uint32_t rc_crc_folded(uint32_t c, const unsigned char* p, size_t n) {
        const __m128i line = rc_crc_by(RC_LINE), near = rc_crc_by(RC_NEAR);
        const __m128i* v = (const __m128i*)p;
        __m128i a = _mm_xor_si128(_mm_loadu_si128(v), _mm_cvtsi32_si128((int)c));
        __m128i b = _mm_loadu_si128(v + 1), d = _mm_loadu_si128(v + 2), e = _mm_loadu_si128(v + 3);
        p += 64;
        n -= 64;
        while (n >= 64) {
            v = (const __m128i*)p;
            a = _mm_xor_si128(rc_crc_fold(a, line), _mm_loadu_si128(v));
            b = _mm_xor_si128(rc_crc_fold(b, line), _mm_loadu_si128(v + 1));
            d = _mm_xor_si128(rc_crc_fold(d, line), _mm_loadu_si128(v + 2));
            e = _mm_xor_si128(rc_crc_fold(e, line), _mm_loadu_si128(v + 3));
            p += 64;
            n -= 64;
        }
        b = _mm_xor_si128(rc_crc_fold(a, near), b);
        d = _mm_xor_si128(rc_crc_fold(b, near), d);
        e = _mm_xor_si128(rc_crc_fold(d, near), e);
        return rc_crc_rest(e, p, n);
    }
    #ifdef RC_CRC_WIDE
    RC_WIDE static inline __m512i rc_crc_fold4(__m512i x, __m512i k, __m512i y) {
        return _mm512_ternarylogic_epi64(
            _mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), y, 0x96);
    }
    RC_WIDE static uint32_t rc_crc_wide(uint32_t c, const unsigned char* p, size_t n) {
        const __m512i far = _mm512_broadcast_i32x4(rc_crc_by(RC_FAR));
        const __m512i line = _mm512_broadcast_i32x4(rc_crc_by(RC_LINE));
        const __m128i near = rc_crc_by(RC_NEAR);
        __m512i a = _mm512_xor_si512(
            _mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)c)));
        __m512i b = _mm512_loadu_si512(p + 64), d = _mm512_loadu_si512(p + 128);
        __m512i e = _mm512_loadu_si512(p + 192);
        __m128i x;
        p += 256;
        n -= 256;
        while (n >= 256) {
            a = rc_crc_fold4(a, far, _mm512_loadu_si512(p));
            b = rc_crc_fold4(b, far, _mm512_loadu_si512(p + 64));
            d = rc_crc_fold4(d, far, _mm512_loadu_si512(p + 128));
            e = rc_crc_fold4(e, far, _mm512_loadu_si512(p + 192));
            p += 256;
            n -= 256;
        }
        e = rc_crc_fold4(rc_crc_fold4(rc_crc_fold4(a, line, b), line, d), line, e);
        while (n >= 64) {
            e = rc_crc_fold4(e, line, _mm512_loadu_si512(p));
            p += 64;
            n -= 64;
        }
        x = _mm512_castsi512_si128(e);
        x = _mm_xor_si128(rc_crc_fold(x, near), _mm512_extracti32x4_epi32(e, 1));
        x = _mm_xor_si128(rc_crc_fold(x, near), _mm512_extracti32x4_epi32(e, 2));
        x = _mm_xor_si128(rc_crc_fold(x, near), _mm512_extracti32x4_epi32(e, 3));
        return rc_crc_rest(x, p, n);
    }
    #endif
    #endif
    static uint32_t rc_crc32(const unsigned char* p, size_t n) {
        if (!rc_crc_ready) {
            rc_crc_prepare();
    #ifdef RC_CRC_FOLDS
            rc_crc_look();
    #endif
        }
    #ifdef RC_CRC_WIDE
        if (n >= 256 && rc_crc_lanes == 4) return ~rc_crc_wide(0xFFFFFFFFu, p, n);
    #endif
    #ifdef RC_CRC_FOLDS
        if (n >= 128 && rc_crc_lanes) return ~rc_crc_folded(0xFFFFFFFFu, p, n);
        if (n >= 16 && rc_crc_lanes) return ~rc_crc_short(0xFFFFFFFFu, p, n);
    #endif
        return ~rc_crc_by_table(0xFFFFFFFFu, p, n);
    }
    static uint32_t rc_crc_stored(const unsigned char* p) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    static int rc_crc_sound_one(const unsigned char* data, const long long* marks, size_t i) {
        const unsigned char* p = data + marks[2 * i];
        size_t n = (size_t)(marks[2 * i + 1] - marks[2 * i]);
        return n >= 4 && rc_crc32(p, n - 4) == rc_crc_stored(p + n - 4);
    }
    #ifdef RC_CRC_FOLDS
    /* Short events one by one: without a call for each, the processor works at several at once. */
    __attribute__((target("pclmul,sse4.1")))
    static size_t rc_crc_sound_short(
        const unsigned char* data, const long long* marks, size_t i, size_t last
    ) {
        for (; i < last; i++) {
            const unsigned char* p = data + marks[2 * i];
            size_t n = (size_t)(marks[2 * i + 1] - marks[2 * i]) - 4;
            if (n - 16 >= 128 - 16) break;
            __m128i e = _mm_xor_si128(_mm_loadu_si128((const __m128i*)p), _mm_cvtsi32_si128(-1));
            if (~rc_crc_rest(e, p + 16, n - 16) != rc_crc_stored(p + n)) break;
        }
        return i;
    }
    #endif
    #ifdef RC_CRC_WIDE
    /* 16 bytes for all of an event, in four parts whose sum they are. Zeros before its bytes change
       nothing as long as nothing is added to its first ones. */
    RC_WIDE static inline __m512i rc_crc_parts(
        const unsigned char* p, size_t n, __m512i line, __m512i ends
    ) {
        size_t first = ((n - 1) & 63) + 1;
        __m512i x;
        p += first;
        x = _mm512_maskz_loadu_epi8(~(uint64_t)0 << (64 - first), p - 64);
        for (n -= first; n; n -= 64, p += 64) x = rc_crc_fold4(x, line, _mm512_loadu_si512(p));
        return rc_crc_fold4(x, ends, _mm512_maskz_mov_epi64(0xC0, x));
    }
    #define RC_CRC_LONG(n) ((n) - 4 > RC_CRC_FEW - 4)
    /* The next four short events, when the long ones up to the last of them are right; `i` when not. */
    __attribute__((noinline))
    static size_t rc_crc_sound_long(
        const unsigned char* data, const long long* marks, size_t i, size_t last, size_t* four
    ) {
        size_t begin = i, k = 0;
        four[0] = last;
        for (; k < 4 && i < last; i++) {
            if (!RC_CRC_LONG((size_t)(marks[2 * i + 1] - marks[2 * i]))) four[k++] = i;
            else if (!rc_crc_sound_one(data, marks, i)) return begin;
        }
        for (k = k ? k : 1; k < 4; k++) four[k] = four[k - 1];
        return i;
    }
    #define RC_CRC_PARTS(k) rc_crc_parts(data + starts[k], sizes[k], line, ends)
    #define RC_CRC_HALVES(x, y) _mm512_xor_si512( \\
        _mm512_shuffle_i64x2(x, y, 0x44), _mm512_shuffle_i64x2(x, y, 0xEE))
    /* Four short events at a time: each one's last reduction is a quarter of one. Where one is wrong,
       it is none before what is returned. */
    RC_WIDE static size_t rc_crc_sound_wide(
        const unsigned char* data, const long long* marks, size_t i, size_t last
    ) {
        const __m512i line = _mm512_broadcast_i32x4(rc_crc_by(RC_LINE));
        const __m512i near = _mm512_broadcast_i32x4(rc_crc_by(RC_NEAR));
        const __m512i ends = _mm512_inserti32x4(_mm512_inserti32x4(_mm512_zextsi128_si512(
            rc_crc_by(RC_LINE_3)), rc_crc_by(RC_LINE_2), 1), rc_crc_by(RC_NEAR), 2);
        const __m512i half = _mm512_set1_epi64((int64_t)rc_crc_half);
        const __m512i barrett = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1F7011641, 0x1DB710641));
        const __m512i low = _mm512_set1_epi64(0xFFFFFFFF);
        const __m512i seconds = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 9, 5, 1);
        while (i < last) {
            size_t starts[4], sizes[4], begin = i, next = i + 4;
            for (size_t k = 0; k < 4; k++) {
                size_t j = i + k < last ? i + k : last - 1;
                starts[k] = (size_t)marks[2 * j];
                sizes[k] = (size_t)marks[2 * j + 1] - starts[k];
            }
            if (RC_CRC_LONG(sizes[0]) || RC_CRC_LONG(sizes[1]) || RC_CRC_LONG(sizes[2])
                || RC_CRC_LONG(sizes[3])) {
                size_t four[4];
                next = rc_crc_sound_long(data, marks, i, last, four);
                if (next == i) return i;
                if (four[0] == last) return last;
                for (size_t k = 0; k < 4; k++) {
                    starts[k] = (size_t)marks[2 * four[k]];
                    sizes[k] = (size_t)marks[2 * four[k] + 1] - starts[k];
                }
            }
            i = next;
            __m512i a = RC_CRC_PARTS(0), b = RC_CRC_PARTS(1), c = RC_CRC_PARTS(2), d = RC_CRC_PARTS(3);
            a = RC_CRC_HALVES(a, b);
            c = RC_CRC_HALVES(c, d);
            a = _mm512_xor_si512(_mm512_shuffle_i64x2(a, c, 0x88), _mm512_shuffle_i64x2(a, c, 0xDD));
            a = _mm512_xor_si512(_mm512_bsrli_epi128(a, 8), _mm512_clmulepi64_epi128(a, near, 0x10));
            a = _mm512_xor_si512(_mm512_bsrli_epi128(a, 4), _mm512_clmulepi64_epi128(
                _mm512_and_si512(a, low), half, 0));
            b = _mm512_clmulepi64_epi128(_mm512_and_si512(a, low), barrett, 0x10);
            b = _mm512_clmulepi64_epi128(_mm512_and_si512(b, low), barrett, 0);
            a = _mm512_permutexvar_epi32(seconds, _mm512_xor_si512(a, b));
            __m128i found = _mm_xor_si128(_mm512_castsi512_si128(a), _mm_set_epi32(
                (int)rc_crc_sound[sizes[3]], (int)rc_crc_sound[sizes[2]],
                (int)rc_crc_sound[sizes[1]], (int)rc_crc_sound[sizes[0]]));
            if (!_mm_testz_si128(found, found)) return begin;
        }
        return last;
    }
    #endif
    /* The first of the marked events whose last four bytes are not the CRC-32 of those before. */
    static size_t rc_crc_sound_until(
        const unsigned char* data, const long long* marks, size_t i, size_t last
    ) {
        rc_crc32(data, 0);
        for (; i < last; i++) {
    #ifdef RC_CRC_WIDE
            if (rc_crc_lanes == 4) i = rc_crc_sound_wide(data, marks, i, last);
    #endif
    #ifdef RC_CRC_FOLDS
            if (rc_crc_lanes == 1) i = rc_crc_sound_short(data, marks, i, last);
    #endif
            /* A long one, or one of those among which a wrong one is. */
            if (i < last && !rc_crc_sound_one(data, marks, i)) return i;
        }
        return last;
    }
    """
    unsigned int rc_crc32(const unsigned char* data, size_t size) noexcept nogil
    size_t rc_crc_sound_until(
        const unsigned char* data, const long long* marks, size_t first, size_t last) noexcept nogil

cdef inline unsigned int checksum(
    const unsigned char* data, Py_ssize_t offset, Py_ssize_t size
) noexcept nogil:
    return rc_crc32(data + offset, size)

cdef inline Py_ssize_t sound_until(
    const unsigned char* data, const long long* marks, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    return <Py_ssize_t>rc_crc_sound_until(data, marks, first, last)

# The bytes are named one by one, which compilers make one load of.
cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t rc_le4(const unsigned char* p) {
        return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    static inline uint64_t rc_be4(const unsigned char* p) {
        return p[3] | (uint32_t)p[2] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[0] << 24;
    }
    static inline uint64_t rc_load_le(const unsigned char* p, int size) {
        switch (size) {
        case 1: return p[0];
        case 2: return p[0] | (uint32_t)p[1] << 8;
        case 3: return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
        case 4: return rc_le4(p);
        case 5: return rc_le4(p) | (uint64_t)p[4] << 32;
        case 6: return rc_le4(p) | (uint64_t)(p[4] | (uint32_t)p[5] << 8) << 32;
        case 7: return rc_le4(p) | rc_le4(p + 3) << 24;
        case 8: return rc_le4(p) | rc_le4(p + 4) << 32;
        default: return 0;
        }
    }
    static inline uint64_t rc_load_be(const unsigned char* p, int size) {
        switch (size) {
        case 1: return p[0];
        case 2: return (uint32_t)p[0] << 8 | p[1];
        case 3: return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        case 4: return rc_be4(p);
        case 5: return rc_be4(p) << 8 | p[4];
        case 6: return rc_be4(p) << 16 | (uint32_t)p[4] << 8 | p[5];
        case 7: return rc_be4(p) << 24 | rc_be4(p + 3);
        case 8: return rc_be4(p) << 32 | rc_be4(p + 4);
        default: return 0;
        }
    }
    static inline uint32_t rc_power_of_ten(int digits) {
        static const uint32_t powers[10] = {
            1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
        return powers[digits];
    }
    """
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

# Whether a value is there cannot be foreseen: where it is read from is computed, not branched upon.
cdef extern from *:
    """
    #include <stdint.h>
    static const unsigned char rc_zeros[16] = {0};
    static inline const unsigned char* rc_there(const unsigned char* data, int64_t at) {
        uintptr_t absent = (uintptr_t)(at >> 63);
        return (const unsigned char*)(((uintptr_t)(data + at) & ~absent) | ((uintptr_t)rc_zeros & absent));
    }
    static inline int rc_clear_bit(unsigned char* bits, size_t row, int64_t at) {
        unsigned char absent = (unsigned char)((uint64_t)at >> 63);
        bits[row >> 3] &= (unsigned char)~(absent << (row & 7));
        return absent;
    }
    """
    const unsigned char* rc_there(const unsigned char* data, long long at) noexcept nogil
    int rc_clear_bit(unsigned char* bits, size_t row, long long at) noexcept nogil

cdef inline unsigned long long load_le_there(
    const unsigned char* data, long long at, int size
) noexcept nogil:
    return rc_load_le(rc_there(data, at), size)

cdef inline unsigned long long load_be_there(
    const unsigned char* data, long long at, int size
) noexcept nogil:
    return rc_load_be(rc_there(data, at), size)

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

# Up to 128 bytes without a call: by words that may overlap.
cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t rc_differ8(const unsigned char* a, const unsigned char* b) {
        uint64_t v, w;
        memcpy(&v, a, 8);
        memcpy(&w, b, 8);
        return v ^ w;
    }
    #if defined(__SSE2__)
    #include <immintrin.h>
    #define RC_DIFFERENT(i) _mm_xor_si128( \\
        _mm_loadu_si128((const __m128i*)(a + (i))), _mm_loadu_si128((const __m128i*)(b + (i))))
    #endif
    static inline int rc_same(const unsigned char* a, const unsigned char* b, size_t n) {
        if (n > 16) {
    #if defined(__SSE2__)
            if (n <= 128) {
                __m128i found = RC_DIFFERENT(n - 16);
                for (size_t i = 0; i + 16 < n; i += 16) found = _mm_or_si128(found, RC_DIFFERENT(i));
                return _mm_movemask_epi8(_mm_cmpeq_epi8(found, _mm_setzero_si128())) == 0xFFFF;
            }
    #endif
            return memcmp(a, b, n) == 0;
        }
        if (n >= 8) return (rc_differ8(a, b) | rc_differ8(a + n - 8, b + n - 8)) == 0;
        if (n >= 4) return ((rc_le4(a) ^ rc_le4(b)) | (rc_le4(a + n - 4) ^ rc_le4(b + n - 4))) == 0;
        for (; n; n--) if (a[n - 1] != b[n - 1]) return 0;
        return 1;
    }
    /* 16 bytes at a time, so that a short copy takes no call and no loop. */
    static inline void rc_copy_over(unsigned char* to, const unsigned char* from, size_t n) {
        size_t i = 0;
        do { memcpy(to + i, from + i, 16); i += 16; } while (i < n);
    }
    static inline uint64_t rc_fingerprint(const unsigned char* p, size_t n, uint64_t seed) {
        uint64_t a = 0, b = n;
        if (n >= 8) {
            a = rc_load_le(p, 8);
            b = rc_load_le(p + n - 8, 8);
            if (n > 16) a ^= rc_load_le(p + n / 2 - 4, 8) * 0x9E3779B97F4A7C15u;
        } else if (n >= 4) {
            a = rc_le4(p);
            b = rc_le4(p + n - 4);
        } else if (n) a = p[0] | (uint32_t)p[n / 2] << 8 | (uint32_t)p[n - 1] << 16;
        a = (a ^ seed * 0xD6E8FEB86659FD93u) * 0x9E3779B97F4A7C15u;
        a = (a ^ a >> 32 ^ b) * 0xD6E8FEB86659FD93u;
        return a ^ a >> 32;
    }
    """
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

# Decimal digits, two at a time, and what else JSON has instead of a string.
cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    static const char rc_pairs[201] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    static inline void rc_put_pair(unsigned char* to, unsigned n) {
        memcpy(to, rc_pairs + 2 * n, 2);
    }
    static size_t rc_put_long(unsigned char* to, uint64_t n) {
        uint64_t bound = 1000;
        size_t size = 3, at;
        while (size < 20 && n >= bound) {
            size++;
            bound *= 10;
        }
        at = size;
        for (; n >= 100; n /= 100) rc_put_pair(to + (at -= 2), (unsigned)(n % 100));
        if (at == 2) rc_put_pair(to, (unsigned)n);
        else to[0] = (unsigned char)('0' + n);
        return size;
    }
    static inline size_t rc_put_digits(unsigned char* to, uint64_t n) {
        if (n < 10) {
            to[0] = (unsigned char)('0' + n);
            return 1;
        }
        if (n < 100) {
            rc_put_pair(to, (unsigned)n);
            return 2;
        }
        return rc_put_long(to, n);
    }
    static inline size_t rc_put_ten_thousandths(unsigned char* to, uint64_t n) {
        uint64_t whole = n / 10000;
        unsigned fraction = (unsigned)(n - 10000 * whole), first = fraction / 100;
        unsigned last = fraction - 100 * first;
        size_t size = rc_put_digits(to, whole);
        to[size] = '.';
        rc_put_pair(to + size + 1, first);
        if (!last) return size + (first % 10 ? 3 : 2);
        rc_put_pair(to + size + 3, last);
        return size + (last % 10 ? 5 : 4);
    }
    static inline size_t rc_put_literal(unsigned char* to, int literal) {
        static const char texts[25] = "null\\0\\0\\0\\0true\\0\\0\\0\\0false\\0\\0\\0";
        memcpy(to, texts + 8 * literal, 8);
        return literal == 2 ? 5 : 4;
    }
    static inline size_t rc_put_escaped(unsigned char* to, unsigned char byte) {
        /* What is written for 8 to 13; 0: nothing shorter than the code. */
        static const char shorter[7] = "btn\\0fr";
        to[0] = 0x5C;
        to[1] = byte >= 0x20 ? byte : byte >= 8 && byte <= 13 ? (unsigned char)shorter[byte - 8] : 0;
        if (to[1]) return 2;
        memcpy(to + 1, "u00", 3);
        to[4] = (unsigned char)('0' + (byte >> 4));
        to[5] = (unsigned char)"0123456789abcdef"[byte & 15];
        return 6;
    }
    """
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

# Text is checked while it is copied: 16 ASCII bytes at a time; from the first block on that has others,
# all is checked by three tables of what two neighbouring bytes may not be (Keiser and Lemire,
# "Validating UTF-8 in less than one instruction per byte"), or byte by byte without SSSE3.
cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    static int rc_utf8_by_byte(const unsigned char* p, size_t n) {
        size_t i = 0;
        while (i < n) {
            unsigned char lead = p[i], second;
            if (lead < 0x80) { i++; continue; }
            if (lead < 0xC2 || lead > 0xF4 || i + 1 >= n) return 0;
            second = p[i + 1];
            if ((second & 0xC0) != 0x80) return 0;
            if (lead < 0xE0) { i += 2; continue; }
            if (i + 2 >= n || (p[i + 2] & 0xC0) != 0x80) return 0;
            if (lead < 0xF0) {
                if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
                i += 3;
                continue;
            }
            if (i + 3 >= n || (p[i + 3] & 0xC0) != 0x80) return 0;
            if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
            i += 4;
        }
        return 1;
    }
    #if defined(__x86_64__) && defined(__GNUC__)
    #define RC_UTF8_TABLES 1
    #include <immintrin.h>
    /* Faults that two bytes can show. Two continuation bytes are none behind a lead of three or four. */
    enum {
        RC_SHORT = 1, RC_LONG = 2, RC_OVER3 = 4, RC_LARGE = 8, RC_SURROGATE = 16, RC_OVER2 = 32,
        RC_LARGER = 64, RC_OVER4 = 64, RC_TWO = 128, RC_ANY = RC_SHORT | RC_LONG | RC_TWO
    };
    #define RC_FIRST_HIGH _mm_setr_epi8( \\
        RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, \\
        (char)RC_TWO, (char)RC_TWO, (char)RC_TWO, (char)RC_TWO, \\
        RC_SHORT | RC_OVER2, RC_SHORT, RC_SHORT | RC_OVER3 | RC_SURROGATE, \\
        RC_SHORT | RC_LARGE | RC_LARGER)
    #define RC_FIRST_LOW _mm_setr_epi8( \\
        (char)(RC_ANY | RC_OVER3 | RC_OVER2 | RC_OVER4), (char)(RC_ANY | RC_OVER2), \\
        (char)RC_ANY, (char)RC_ANY, (char)(RC_ANY | RC_LARGE), \\
        (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \\
        (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \\
        (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \\
        (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \\
        (char)(RC_ANY | RC_LARGE | RC_LARGER | RC_SURROGATE), \\
        (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER))
    #define RC_SECOND_HIGH _mm_setr_epi8( \\
        RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, \\
        (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_OVER3 | RC_LARGER | RC_OVER4), \\
        (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_OVER3 | RC_LARGE), \\
        (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_SURROGATE | RC_LARGE), \\
        (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_SURROGATE | RC_LARGE), \\
        RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT)
    __attribute__((target("ssse3")))
    static inline __m128i rc_utf8_faults(__m128i now, __m128i before) {
        const __m128i nibble = _mm_set1_epi8(15);
        __m128i one = _mm_alignr_epi8(now, before, 15);
        __m128i two = _mm_alignr_epi8(now, before, 14), three = _mm_alignr_epi8(now, before, 13);
        __m128i pairs = _mm_and_si128(
            _mm_and_si128(
                _mm_shuffle_epi8(RC_FIRST_HIGH, _mm_and_si128(_mm_srli_epi16(one, 4), nibble)),
                _mm_shuffle_epi8(RC_FIRST_LOW, _mm_and_si128(one, nibble))),
            _mm_shuffle_epi8(RC_SECOND_HIGH, _mm_and_si128(_mm_srli_epi16(now, 4), nibble)));
        /* Bit 7 where a third or fourth byte must be. */
        __m128i later = _mm_or_si128(
            _mm_subs_epu8(two, _mm_set1_epi8((char)(0xE0 - 0x80))),
            _mm_subs_epu8(three, _mm_set1_epi8((char)(0xF0 - 0x80))));
        return _mm_xor_si128(_mm_and_si128(later, _mm_set1_epi8((char)0x80)), pairs);
    }
    __attribute__((target("ssse3")))
    static int rc_utf8_by_table(const unsigned char* p, size_t n) {
        __m128i before = _mm_setzero_si128(), faults = before, now;
        unsigned char rest[16] = {0};
        while (n >= 16) {
            now = _mm_loadu_si128((const __m128i*)p);
            faults = _mm_or_si128(faults, rc_utf8_faults(now, before));
            before = now;
            p += 16;
            n -= 16;
        }
        /* At least one zero behind the last byte, which shows a character that is cut off. */
        memcpy(rest, p, n);
        now = _mm_loadu_si128((const __m128i*)rest);
        faults = _mm_or_si128(faults, rc_utf8_faults(now, before));
        return _mm_movemask_epi8(_mm_cmpeq_epi8(faults, _mm_setzero_si128())) == 0xFFFF;
    }
    #define RC_WIDE_TABLE(t) _mm256_broadcastsi128_si256(t)
    __attribute__((target("avx2")))
    static inline __m256i rc_utf8_wide_faults(
        __m256i now, __m256i before, __m256i first_high, __m256i first_low, __m256i second_high
    ) {
        const __m256i nibble = _mm256_set1_epi8(15);
        __m256i joined = _mm256_permute2x128_si256(before, now, 0x21);
        __m256i one = _mm256_alignr_epi8(now, joined, 15);
        __m256i two = _mm256_alignr_epi8(now, joined, 14), three = _mm256_alignr_epi8(now, joined, 13);
        __m256i pairs = _mm256_and_si256(
            _mm256_and_si256(
                _mm256_shuffle_epi8(first_high, _mm256_and_si256(_mm256_srli_epi16(one, 4), nibble)),
                _mm256_shuffle_epi8(first_low, _mm256_and_si256(one, nibble))),
            _mm256_shuffle_epi8(second_high, _mm256_and_si256(_mm256_srli_epi16(now, 4), nibble)));
        __m256i later = _mm256_or_si256(
            _mm256_subs_epu8(two, _mm256_set1_epi8((char)(0xE0 - 0x80))),
            _mm256_subs_epu8(three, _mm256_set1_epi8((char)(0xF0 - 0x80))));
        return _mm256_xor_si256(_mm256_and_si256(later, _mm256_set1_epi8((char)0x80)), pairs);
    }
    __attribute__((target("avx2")))
    static int rc_utf8_wide(const unsigned char* p, size_t n) {
        const __m256i first_high = RC_WIDE_TABLE(RC_FIRST_HIGH);
        const __m256i first_low = RC_WIDE_TABLE(RC_FIRST_LOW);
        const __m256i second_high = RC_WIDE_TABLE(RC_SECOND_HIGH);
        __m256i before = _mm256_setzero_si256(), faults = before, now;
        unsigned char rest[32] = {0};
        while (n >= 32) {
            now = _mm256_loadu_si256((const __m256i*)p);
            faults = _mm256_or_si256(
                faults, rc_utf8_wide_faults(now, before, first_high, first_low, second_high));
            before = now;
            p += 32;
            n -= 32;
        }
        memcpy(rest, p, n);
        now = _mm256_loadu_si256((const __m256i*)rest);
        faults = _mm256_or_si256(
            faults, rc_utf8_wide_faults(now, before, first_high, first_low, second_high));
        return _mm256_testz_si256(faults, faults);
    }
    static int rc_utf8_tables = -1;
    #endif
    static int rc_utf8(const unsigned char* p, size_t n) {
    #ifdef RC_UTF8_TABLES
        if (rc_utf8_tables < 0) {
            rc_utf8_tables = __builtin_cpu_supports("ssse3") != 0;
            if (__builtin_cpu_supports("avx2")) rc_utf8_tables = 2;
        }
        if (rc_utf8_tables == 2 && n > 16) return rc_utf8_wide(p, n);
        if (rc_utf8_tables) return rc_utf8_by_table(p, n);
    #endif
        return rc_utf8_by_byte(p, n);
    }
    #define RC_HIGH 0x8080808080808080u
    static inline int rc_copy_utf8(unsigned char* to, const unsigned char* from, size_t n) {
        size_t i = 0;
        uint64_t a, b;
        if (n < 8) {
            unsigned char high = 0;
            for (; i < n; i++) { to[i] = from[i]; high |= from[i]; }
            return high < 0x80 || rc_utf8(from, n);
        }
    #if defined(__SSE2__)
        /* Blocks of 64 bytes or four times 16; the last ones begin with bytes that were looked at
           already, so that none is left. */
    #define RC_COPY_4(p, q, r, s) { \\
            __m128i v = _mm_loadu_si128((const __m128i*)(from + (p))); \\
            __m128i w = _mm_loadu_si128((const __m128i*)(from + (q))); \\
            __m128i x = _mm_loadu_si128((const __m128i*)(from + (r))); \\
            __m128i y = _mm_loadu_si128((const __m128i*)(from + (s))); \\
            if (_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(v, w), _mm_or_si128(x, y)))) goto others; \\
            _mm_storeu_si128((__m128i*)(to + (p)), v); \\
            _mm_storeu_si128((__m128i*)(to + (q)), w); \\
            _mm_storeu_si128((__m128i*)(to + (r)), x); \\
            _mm_storeu_si128((__m128i*)(to + (s)), y); \\
        }
        if (n > 64) {
            for (; n - i > 64; i += 64) RC_COPY_4(i, i + 16, i + 32, i + 48)
            RC_COPY_4(n - 64, n - 48, n - 32, n - 16)
            return 1;
        }
        if (n >= 32) {
            RC_COPY_4(0, 16, n - 32, n - 16)
            return 1;
        }
        if (n >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i*)from);
            __m128i w = _mm_loadu_si128((const __m128i*)(from + n - 16));
            if (_mm_movemask_epi8(_mm_or_si128(v, w))) goto others;
            _mm_storeu_si128((__m128i*)to, v);
            _mm_storeu_si128((__m128i*)(to + n - 16), w);
            return 1;
        }
    #else
        for (; n - i >= 16; i += 16) {
            memcpy(&a, from + i, 8);
            memcpy(&b, from + i + 8, 8);
            if ((a | b) & RC_HIGH) goto others;
            memcpy(to + i, &a, 8);
            memcpy(to + i + 8, &b, 8);
        }
    #endif
        if (n == i) return 1;
        /* The last bytes, with some before them that were looked at already. */
        if (n - i > 8) {
            memcpy(&a, from + i, 8);
            memcpy(&b, from + n - 8, 8);
            if ((a | b) & RC_HIGH) goto others;
            memcpy(to + i, &a, 8);
            memcpy(to + n - 8, &b, 8);
            return 1;
        }
        memcpy(&b, from + n - 8, 8);
        if (b & RC_HIGH) goto others;
        memcpy(to + n - 8, &b, 8);
        return 1;
    others:
        memcpy(to + i, from + i, n - i);
        return rc_utf8(from + i, n - i);
    }
    /* The same of up to 31 bytes, where 32 can be read and written: how many there are is not branched
       upon, as it cannot be foreseen. */
    #if defined(__SSE2__)
    #if defined(RC_UTF8_TABLES)
    static const unsigned char rc_counted[64] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0};
    __attribute__((target("avx2")))
    static int rc_utf8_short(const unsigned char* p, size_t n) {
        __m256i faults = rc_utf8_wide_faults(
            _mm256_and_si256(_mm256_loadu_si256((const __m256i*)p),
                             _mm256_loadu_si256((const __m256i*)(rc_counted + 32 - n))),
            _mm256_setzero_si256(), RC_WIDE_TABLE(RC_FIRST_HIGH), RC_WIDE_TABLE(RC_FIRST_LOW),
            RC_WIDE_TABLE(RC_SECOND_HIGH));
        return _mm256_testz_si256(faults, faults);
    }
    #endif
    static inline int rc_copy_short_utf8(unsigned char* to, const unsigned char* from, size_t n) {
        __m128i v = _mm_loadu_si128((const __m128i*)from);
        __m128i w = _mm_loadu_si128((const __m128i*)(from + 16));
        uint32_t high = (uint32_t)_mm_movemask_epi8(v) | (uint32_t)_mm_movemask_epi8(w) << 16;
        _mm_storeu_si128((__m128i*)to, v);
        _mm_storeu_si128((__m128i*)(to + 16), w);
        if (!(high & (((uint32_t)1 << n) - 1))) return 1;
    #if defined(RC_UTF8_TABLES)
        if (rc_utf8_tables == 2) return rc_utf8_short(from, n);
    #endif
        return rc_utf8(from, n);
    }
    #else
    static inline int rc_copy_short_utf8(unsigned char* to, const unsigned char* from, size_t n) {
        return rc_copy_utf8(to, from, n);
    }
    #endif
    /* 0: ASCII that JSON has in strings as it is; 1: other characters are among it, or bytes that are
       none; 2: control characters, quotation marks or backslashes are. */
    static inline int rc_copy_quotable(unsigned char* to, const unsigned char* from, size_t n) {
        size_t i = 0;
        unsigned char high = 0;
        int escaped = 0;
    #if defined(__SSE2__)
        const __m128i control = _mm_set1_epi8(0x1F), quote = _mm_set1_epi8(0x22);
        const __m128i back = _mm_set1_epi8(0x5C);
        __m128i v, bad, all;
    #define RC_ESCAPED(v) _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(v, control), v), \\
        _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, back)))
    #define RC_QUOTABLE(bad, all) \\
        (_mm_movemask_epi8(bad) ? 2 : _mm_movemask_epi8(all) ? 1 : 0)
        if (n >= 16) {
            /* The last ones, with some before them that are looked at twice. */
            all = _mm_loadu_si128((const __m128i*)(from + n - 16));
            bad = RC_ESCAPED(all);
            _mm_storeu_si128((__m128i*)(to + n - 16), all);
            for (; n - i > 16; i += 16) {
                v = _mm_loadu_si128((const __m128i*)(from + i));
                bad = _mm_or_si128(bad, RC_ESCAPED(v));
                all = _mm_or_si128(all, v);
                _mm_storeu_si128((__m128i*)(to + i), v);
            }
            return RC_QUOTABLE(bad, all);
        }
        if (n >= 8) {
            v = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i*)from),
                                   _mm_loadl_epi64((const __m128i*)(from + n - 8)));
            bad = RC_ESCAPED(v);
            _mm_storel_epi64((__m128i*)to, v);
            _mm_storel_epi64((__m128i*)(to + n - 8), _mm_unpackhi_epi64(v, v));
            return RC_QUOTABLE(bad, v);
        }
        if (n >= 4) {
            uint32_t a, b;
            memcpy(&a, from, 4);
            memcpy(&b, from + n - 4, 4);
            v = _mm_unpacklo_epi32(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b));
            v = _mm_unpacklo_epi64(v, v);
            bad = RC_ESCAPED(v);
            memcpy(to, &a, 4);
            memcpy(to + n - 4, &b, 4);
            return RC_QUOTABLE(bad, v);
        }
    #endif
        for (; i < n; i++) {
            escaped |= from[i] < 0x20 || from[i] == 0x22 || from[i] == 0x5C;
            high |= from[i];
            to[i] = from[i];
        }
        return escaped ? 2 : high >> 7;
    }
    """
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
