/* The C of crc.pxd; crc.py has the same functions for plain Python. */
#ifndef REPLICA_CLIENT_CODEC_CRC_H
#define REPLICA_CLIENT_CODEC_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* CRC-32 with zlib's polynomial. Where the processor has carry-less multiplication, 64 or 256 bytes
   at a time are folded into the next ones, until 16 bytes represent all before them. Otherwise, and
   for the rest, a table handles eight bytes at a time. */
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
/* Factors that fold over a distance in bytes: x^(8 * distance + 32) and x^(8 * distance - 32)
   mod P, bit-reflected and shifted by one. */
static uint64_t rc_crc_power(int n) {
    uint32_t c = 0x80000000u;
    while (n--) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    return (uint64_t)c << 1;
}
enum { RC_FAR, RC_NEAR, RC_LINE, RC_LINE_2, RC_LINE_3, RC_DISTANCES };
static uint64_t rc_crc_reductions[RC_DISTANCES][2];
static uint64_t rc_crc_half;
static int rc_crc_streams = 0;
#define RC_CRC_FEW 512
static uint32_t rc_crc_valid[RC_CRC_FEW + 1];
static void rc_crc_look(void) {
    static const int distances[RC_DISTANCES] = {256, 16, 64, 32, 48};
    for (int i = 0; i < RC_DISTANCES; i++) {
        rc_crc_reductions[i][0] = rc_crc_power(8 * distances[i] + 32);
        rc_crc_reductions[i][1] = rc_crc_power(8 * distances[i] - 32);
    }
    rc_crc_half = rc_crc_power(64);
    /* With its CRC-32 behind it every message leaves this; less what comes of beginning with ones
       instead of zeros, which depends on how long it is. */
    uint32_t c = 0xFFFFFFFFu;
    for (int i = 0; i <= RC_CRC_FEW; i++) {
        rc_crc_valid[i] = 0xDEBB20E3u ^ c;
        c = (c >> 8) ^ rc_crc_table[0][c & 255];
    }
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) rc_crc_streams = 1;
#ifdef RC_CRC_WIDE
    if (rc_crc_streams && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) rc_crc_streams = 4;
#endif
}
__attribute__((target("pclmul,sse4.1")))
static inline __m128i rc_crc_by(int distance) {
    return _mm_set_epi64x((int64_t)rc_crc_reductions[distance][1], (int64_t)rc_crc_reductions[distance][0]);
}
__attribute__((target("pclmul,sse4.1")))
static inline __m128i rc_crc_reduce(__m128i x, __m128i k) {
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
        e = _mm_xor_si128(rc_crc_reduce(e, near), _mm_loadu_si128((const __m128i*)p));
        p += 16;
        n -= 16;
    }
    if (n) {
        /* The first n bytes of `e` are folded over the n bytes that are left. */
        first = _mm_loadu_si128((const __m128i*)(rc_crc_first + n));
        last = _mm_shuffle_epi8(e, _mm_loadu_si128((const __m128i*)(rc_crc_last + n)));
        rest = _mm_loadu_si128((const __m128i*)(p + n - 16));
        e = _mm_xor_si128(rc_crc_reduce(_mm_shuffle_epi8(e, first), near),
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
static uint32_t rc_crc_reduced(uint32_t c, const unsigned char* p, size_t n) {
    const __m128i line = rc_crc_by(RC_LINE), near = rc_crc_by(RC_NEAR);
    const __m128i* v = (const __m128i*)p;
    __m128i a = _mm_xor_si128(_mm_loadu_si128(v), _mm_cvtsi32_si128((int)c));
    __m128i b = _mm_loadu_si128(v + 1), d = _mm_loadu_si128(v + 2), e = _mm_loadu_si128(v + 3);
    p += 64;
    n -= 64;
    while (n >= 64) {
        v = (const __m128i*)p;
        a = _mm_xor_si128(rc_crc_reduce(a, line), _mm_loadu_si128(v));
        b = _mm_xor_si128(rc_crc_reduce(b, line), _mm_loadu_si128(v + 1));
        d = _mm_xor_si128(rc_crc_reduce(d, line), _mm_loadu_si128(v + 2));
        e = _mm_xor_si128(rc_crc_reduce(e, line), _mm_loadu_si128(v + 3));
        p += 64;
        n -= 64;
    }
    b = _mm_xor_si128(rc_crc_reduce(a, near), b);
    d = _mm_xor_si128(rc_crc_reduce(b, near), d);
    e = _mm_xor_si128(rc_crc_reduce(d, near), e);
    return rc_crc_rest(e, p, n);
}
#ifdef RC_CRC_WIDE
RC_WIDE static inline __m512i rc_crc_reduce4(__m512i x, __m512i k, __m512i y) {
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
        a = rc_crc_reduce4(a, far, _mm512_loadu_si512(p));
        b = rc_crc_reduce4(b, far, _mm512_loadu_si512(p + 64));
        d = rc_crc_reduce4(d, far, _mm512_loadu_si512(p + 128));
        e = rc_crc_reduce4(e, far, _mm512_loadu_si512(p + 192));
        p += 256;
        n -= 256;
    }
    e = rc_crc_reduce4(rc_crc_reduce4(rc_crc_reduce4(a, line, b), line, d), line, e);
    while (n >= 64) {
        e = rc_crc_reduce4(e, line, _mm512_loadu_si512(p));
        p += 64;
        n -= 64;
    }
    x = _mm512_castsi512_si128(e);
    x = _mm_xor_si128(rc_crc_reduce(x, near), _mm512_extracti32x4_epi32(e, 1));
    x = _mm_xor_si128(rc_crc_reduce(x, near), _mm512_extracti32x4_epi32(e, 2));
    x = _mm_xor_si128(rc_crc_reduce(x, near), _mm512_extracti32x4_epi32(e, 3));
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
    if (n >= 256 && rc_crc_streams == 4) return ~rc_crc_wide(0xFFFFFFFFu, p, n);
#endif
#ifdef RC_CRC_FOLDS
    if (n >= 128 && rc_crc_streams) return ~rc_crc_reduced(0xFFFFFFFFu, p, n);
    if (n >= 16 && rc_crc_streams) return ~rc_crc_short(0xFFFFFFFFu, p, n);
#endif
    return ~rc_crc_by_table(0xFFFFFFFFu, p, n);
}
static uint32_t rc_crc_stored(const unsigned char* p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static int rc_crc_valid_one(const unsigned char* data, const long long* marks, size_t i) {
    const unsigned char* p = data + marks[2 * i];
    size_t n = (size_t)(marks[2 * i + 1] - marks[2 * i]);
    return n >= 4 && rc_crc32(p, n - 4) == rc_crc_stored(p + n - 4);
}
#ifdef RC_CRC_FOLDS
/* Check short events one by one; without calls, the processor overlaps their checks. */
__attribute__((target("pclmul,sse4.1")))
static size_t rc_crc_valid_short(
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
    for (n -= first; n; n -= 64, p += 64) x = rc_crc_reduce4(x, line, _mm512_loadu_si512(p));
    return rc_crc_reduce4(x, ends, _mm512_maskz_mov_epi64(0xC0, x));
}
#define RC_CRC_LONG(n) ((n) - 4 > RC_CRC_FEW - 4)
/* The next four short events, when the long ones up to the last of them are right; `i` when not. */
__attribute__((noinline))
static size_t rc_crc_valid_long(
    const unsigned char* data, const long long* marks, size_t i, size_t last, size_t* four
) {
    size_t begin = i, k = 0;
    four[0] = last;
    for (; k < 4 && i < last; i++) {
        if (!RC_CRC_LONG((size_t)(marks[2 * i + 1] - marks[2 * i]))) four[k++] = i;
        else if (!rc_crc_valid_one(data, marks, i)) return begin;
    }
    for (k = k ? k : 1; k < 4; k++) four[k] = four[k - 1];
    return i;
}
/* Constants for checking four short events, in registers. */
typedef struct { __m512i line, near, ends, half, barrett, low, seconds; } rc_crc_wide_t;
RC_WIDE static inline __attribute__((always_inline)) rc_crc_wide_t rc_crc_wides(void) {
    rc_crc_wide_t w;
    w.line = _mm512_broadcast_i32x4(rc_crc_by(RC_LINE));
    w.near = _mm512_broadcast_i32x4(rc_crc_by(RC_NEAR));
    w.ends = _mm512_inserti32x4(_mm512_inserti32x4(_mm512_zextsi128_si512(
        rc_crc_by(RC_LINE_3)), rc_crc_by(RC_LINE_2), 1), rc_crc_by(RC_NEAR), 2);
    w.half = _mm512_set1_epi64((int64_t)rc_crc_half);
    w.barrett = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1F7011641, 0x1DB710641));
    w.low = _mm512_set1_epi64(0xFFFFFFFF);
    w.seconds = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 9, 5, 1);
    return w;
}
#define RC_CRC_PARTS(k) rc_crc_parts(data + starts[k], sizes[k], w.line, w.ends)
#define RC_CRC_HALVES(x, y) _mm512_xor_si512( \
    _mm512_shuffle_i64x2(x, y, 0x44), _mm512_shuffle_i64x2(x, y, 0xEE))
/* Return whether four short events are right; their last reductions are done in one vector. */
RC_WIDE static inline __attribute__((always_inline)) int rc_crc_four(
    const unsigned char* data, const size_t* starts, const size_t* sizes, rc_crc_wide_t w
) {
    __m512i a = RC_CRC_PARTS(0), b = RC_CRC_PARTS(1), c = RC_CRC_PARTS(2), d = RC_CRC_PARTS(3);
    a = RC_CRC_HALVES(a, b);
    c = RC_CRC_HALVES(c, d);
    a = _mm512_xor_si512(_mm512_shuffle_i64x2(a, c, 0x88), _mm512_shuffle_i64x2(a, c, 0xDD));
    a = _mm512_xor_si512(_mm512_bsrli_epi128(a, 8), _mm512_clmulepi64_epi128(a, w.near, 0x10));
    a = _mm512_xor_si512(_mm512_bsrli_epi128(a, 4), _mm512_clmulepi64_epi128(
        _mm512_and_si512(a, w.low), w.half, 0));
    b = _mm512_clmulepi64_epi128(_mm512_and_si512(a, w.low), w.barrett, 0x10);
    b = _mm512_clmulepi64_epi128(_mm512_and_si512(b, w.low), w.barrett, 0);
    a = _mm512_permutexvar_epi32(w.seconds, _mm512_xor_si512(a, b));
    __m128i found = _mm_xor_si128(_mm512_castsi512_si128(a), _mm_set_epi32(
        (int)rc_crc_valid[sizes[3]], (int)rc_crc_valid[sizes[2]],
        (int)rc_crc_valid[sizes[1]], (int)rc_crc_valid[sizes[0]]));
    return _mm_testz_si128(found, found);
}
/* All events before the returned index are right; the event there may be right, too. */
RC_WIDE static size_t rc_crc_valid_wide(
    const unsigned char* data, const long long* marks, size_t i, size_t last
) {
    const rc_crc_wide_t w = rc_crc_wides();
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
            next = rc_crc_valid_long(data, marks, i, last, four);
            if (next == i) return i;
            if (four[0] == last) return last;
            for (size_t k = 0; k < 4; k++) {
                starts[k] = (size_t)marks[2 * four[k]];
                sizes[k] = (size_t)marks[2 * four[k] + 1] - starts[k];
            }
        }
        i = next;
        if (!rc_crc_four(data, starts, sizes, w)) return begin;
    }
    return last;
}
#endif
/* Return the size of the event at `at` if it is short and ends by `end`; else 0. */
static inline size_t rc_crc_next(
    const unsigned char* data, size_t at, size_t end, size_t most, const unsigned char* stops
) {
    size_t size;
    if (end - at < 19) return 0;
    size = rc_crc_stored(data + at + 9);
    if (size < 19 || size > most || size > end - at || stops[data[at + 4]]) return 0;
    return size;
}
#ifdef RC_CRC_WIDE
/* The sizes of events, each of which tells where the next one is, are waited for while the four
   before are checked. */
RC_WIDE static size_t rc_crc_cut_wide(
    const unsigned char* data, size_t at, size_t end, long long* marks, size_t last, size_t room,
    size_t most, const unsigned char* stops
) {
    const rc_crc_wide_t w = rc_crc_wides();
    while (last + 4 <= room) {
        size_t starts[4], sizes[4];
        for (size_t k = 0; k < 4; k++) {
            starts[k] = at;
            sizes[k] = rc_crc_next(data, at, end, most, stops);
            if (!sizes[k]) return last;
            marks[2 * (last + k)] = (long long)at;
            at += sizes[k];
            marks[2 * (last + k) + 1] = (long long)at;
        }
        if (!rc_crc_four(data, starts, sizes, w)) return last;
        last += 4;
    }
    return last;
}
#endif
#ifdef RC_CRC_FOLDS
__attribute__((target("pclmul,sse4.1")))
static size_t rc_crc_cut_short(
    const unsigned char* data, size_t at, size_t end, long long* marks, size_t last, size_t room,
    size_t most, const unsigned char* stops
) {
    for (; last < room; last++) {
        size_t size = rc_crc_next(data, at, end, most, stops), n = size - 4;
        if (size < 16 + 4) break;
        const unsigned char* p = data + at;
        __m128i e = _mm_xor_si128(_mm_loadu_si128((const __m128i*)p), _mm_cvtsi32_si128(-1));
        if (~rc_crc_rest(e, p + 16, n - 16) != rc_crc_stored(p + n)) break;
        marks[2 * last] = (long long)at;
        at += size;
        marks[2 * last + 1] = (long long)at;
    }
    return last;
}
#endif
static size_t rc_crc_cut(
    const unsigned char* data, size_t at, size_t end, long long* marks, size_t last, size_t room,
    size_t most, const unsigned char* stops
) {
#ifdef RC_CRC_FOLDS
    rc_crc32(data, 0);
    if (most > RC_CRC_FEW) most = RC_CRC_FEW;
#ifdef RC_CRC_WIDE
    if (rc_crc_streams == 4) return rc_crc_cut_wide(data, at, end, marks, last, room, most, stops);
#endif
    if (rc_crc_streams) return rc_crc_cut_short(data, at, end, marks, last, room, most, stops);
#endif
    return last;
}
/* Return the first marked event whose last four bytes are not the CRC-32 of the others. */
static size_t rc_crc_valid_until(
    const unsigned char* data, const long long* marks, size_t i, size_t last
) {
    rc_crc32(data, 0);
    for (; i < last; i++) {
#ifdef RC_CRC_WIDE
        if (rc_crc_streams == 4) i = rc_crc_valid_wide(data, marks, i, last);
#endif
#ifdef RC_CRC_FOLDS
        if (rc_crc_streams == 1) i = rc_crc_valid_short(data, marks, i, last);
#endif
        /* A long one, or one of those among which a wrong one is. */
        if (i < last && !rc_crc_valid_one(data, marks, i)) return i;
    }
    return last;
}

#endif
