/* The C of memory.pxd; memory.py has the same functions for plain Python. */
#ifndef REPLICA_CLIENT_CODEC_MEMORY_H
#define REPLICA_CLIENT_CODEC_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Compilers turn the separate bytes into one load. */
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

/* Whether a value is missing is unpredictable: compute the address to read, without a branch. */
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

/* Compare up to 128 bytes without a call, by words that may overlap. */
static inline uint64_t rc_differ8(const unsigned char* a, const unsigned char* b) {
    uint64_t v, w;
    memcpy(&v, a, 8);
    memcpy(&w, b, 8);
    return v ^ w;
}
#if defined(__SSE2__)
#include <immintrin.h>
#define RC_DIFFERENT(i) _mm_xor_si128( \
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
/* Copy 16 bytes at a time, so that a short copy needs no call and no loop. */
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

/* Pairs of decimal digits, and the literals of JSON. */
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
    static const char texts[25] = "null\0\0\0\0true\0\0\0\0false\0\0\0";
    memcpy(to, texts + 8 * literal, 8);
    return literal == 2 ? 5 : 4;
}
static inline size_t rc_put_escaped(unsigned char* to, unsigned char byte) {
    /* Short escapes of characters 8 to 13; 0: there is none, write the code. */
    static const char shorter[7] = "btn\0fr";
    to[0] = 0x5C;
    to[1] = byte >= 0x20 ? byte : byte >= 8 && byte <= 13 ? (unsigned char)shorter[byte - 8] : 0;
    if (to[1]) return 2;
    memcpy(to + 1, "u00", 3);
    to[4] = (unsigned char)('0' + (byte >> 4));
    to[5] = (unsigned char)"0123456789abcdef"[byte & 15];
    return 6;
}

/* Text is checked while it is copied, 16 ASCII bytes at a time. From the first block with other
   bytes on, everything is checked by three tables of invalid pairs of bytes (Keiser and Lemire,
   "Validating UTF-8 in less than one instruction per byte"), or byte by byte without SSSE3. */
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
/* Faults that two bytes can show. Two continuation bytes may follow a lead of three or four. */
enum {
    RC_SHORT = 1, RC_LONG = 2, RC_OVER3 = 4, RC_LARGE = 8, RC_SURROGATE = 16, RC_OVER2 = 32,
    RC_LARGER = 64, RC_OVER4 = 64, RC_TWO = 128, RC_ANY = RC_SHORT | RC_LONG | RC_TWO
};
#define RC_FIRST_HIGH _mm_setr_epi8( \
    RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, RC_LONG, \
    (char)RC_TWO, (char)RC_TWO, (char)RC_TWO, (char)RC_TWO, \
    RC_SHORT | RC_OVER2, RC_SHORT, RC_SHORT | RC_OVER3 | RC_SURROGATE, \
    RC_SHORT | RC_LARGE | RC_LARGER)
#define RC_FIRST_LOW _mm_setr_epi8( \
    (char)(RC_ANY | RC_OVER3 | RC_OVER2 | RC_OVER4), (char)(RC_ANY | RC_OVER2), \
    (char)RC_ANY, (char)RC_ANY, (char)(RC_ANY | RC_LARGE), \
    (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \
    (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \
    (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \
    (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER), \
    (char)(RC_ANY | RC_LARGE | RC_LARGER | RC_SURROGATE), \
    (char)(RC_ANY | RC_LARGE | RC_LARGER), (char)(RC_ANY | RC_LARGE | RC_LARGER))
#define RC_SECOND_HIGH _mm_setr_epi8( \
    RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, RC_SHORT, \
    (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_OVER3 | RC_LARGER | RC_OVER4), \
    (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_OVER3 | RC_LARGE), \
    (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_SURROGATE | RC_LARGE), \
    (char)(RC_LONG | RC_OVER2 | RC_TWO | RC_SURROGATE | RC_LARGE), \
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
    /* At least one zero after the last byte, which reveals a character that is cut off. */
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
    /* Blocks of 64 bytes or four times 16. The last blocks overlap earlier ones, so that no byte
       is left. */
#define RC_COPY_4(p, q, r, s) { \
        __m128i v = _mm_loadu_si128((const __m128i*)(from + (p))); \
        __m128i w = _mm_loadu_si128((const __m128i*)(from + (q))); \
        __m128i x = _mm_loadu_si128((const __m128i*)(from + (r))); \
        __m128i y = _mm_loadu_si128((const __m128i*)(from + (s))); \
        if (_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(v, w), _mm_or_si128(x, y)))) goto others; \
        _mm_storeu_si128((__m128i*)(to + (p)), v); \
        _mm_storeu_si128((__m128i*)(to + (q)), w); \
        _mm_storeu_si128((__m128i*)(to + (r)), x); \
        _mm_storeu_si128((__m128i*)(to + (s)), y); \
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
    /* The last bytes, overlapping bytes that are already checked. */
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
/* Copy and check up to 31 bytes, where 32 can be read and written, without a branch on their
   number, which is unpredictable. */
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
/* Return 0 for ASCII that JSON strings contain unescaped; 1 if there are other characters or
   invalid bytes; 2 if there are control characters, quotation marks or backslashes. */
static inline int rc_copy_quotable(unsigned char* to, const unsigned char* from, size_t n) {
    size_t i = 0;
    unsigned char high = 0;
    int escaped = 0;
#if defined(__SSE2__)
    const __m128i control = _mm_set1_epi8(0x1F), quote = _mm_set1_epi8(0x22);
    const __m128i back = _mm_set1_epi8(0x5C);
    __m128i v, bad, all;
#define RC_ESCAPED(v) _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(v, control), v), \
    _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, back)))
#define RC_QUOTABLE(bad, all) \
    (_mm_movemask_epi8(bad) ? 2 : _mm_movemask_epi8(all) ? 1 : 0)
    if (n >= 16) {
        /* The last bytes, overlapping bytes that are already checked. */
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

#endif
