/* Each path that a processor can take gives what the plain one gives, on memory that ends where the data end.

   scripts/proofs/sanitize builds it with AddressSanitizer and UndefinedBehaviorSanitizer, tests/unit/protocol/codec/test_cpu_paths.py
   without them. The first argument is the seed, the second the number of rounds. */
#include <stdio.h>
#include <stdlib.h>

#include "replica_client/protocol/codec/crc.h"
#include "replica_client/protocol/codec/memory.h"

static uint64_t state;

static uint64_t any(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void check(int holds, const char* what, size_t size) {
    if (holds) return;
    fprintf(stderr, "%s, %zu bytes\n", what, size);
    exit(1);
}

/* Memory of exactly so many bytes: what is read or written behind it is seen. */
static unsigned char* room(size_t size) {
    unsigned char* memory = malloc(size ? size : 1);
    if (memory == NULL) abort();
    return memory;
}

static size_t put_character(unsigned char* to, size_t left) {
    static const uint32_t limits[4] = {0x80, 0x800, 0x10000, 0x110000};
    size_t count = 1 + any(4);
    uint32_t lowest = count == 1 ? 0 : limits[count - 2];
    uint32_t character;
    if (count > left) return 0;
    do character = lowest + (uint32_t)any(limits[count - 1] - lowest);
    while (character >= 0xD800 && character < 0xE000);
    if (count == 1) to[0] = (unsigned char)character;
    else {
        for (size_t i = count; i-- > 1; character >>= 6) to[i] = 0x80 | (character & 0x3F);
        to[0] = (unsigned char)((0xF00 >> count & 0xFF) | character);
    }
    return count;
}

/* Text in UTF-8; in two of three with something wrong, or of ASCII only. */
static void fill(unsigned char* to, size_t size) {
    size_t at = 0, count;
    int ascii = any(3) == 0;
    while (at < size) {
        count = ascii ? 0 : put_character(to + at, size - at);
        if (!count) to[at] = 0x20 + (unsigned char)any(0x5F), count = 1;
        at += count;
    }
    if (size && any(2)) to[any(size)] = (unsigned char)any(256);
    if (size && any(4) == 0) to[size - 1] = 0xC0 | (unsigned char)any(64);
}

static int plain_quotable(const unsigned char* from, size_t size) {
    int found = 0;
    for (size_t i = 0; i < size; i++) {
        if (from[i] < 0x20 || from[i] == '"' || from[i] == '\\') return 2;
        if (from[i] > 0x7F) found = 1;
    }
    return found;
}

static void check_text(size_t size) {
    unsigned char *from = room(size), *to = room(size), *wide_from = room(32), *wide_to = room(32);
    int valid, quotable;
    fill(from, size);
    valid = rc_utf8_by_byte(from, size);
#ifdef RC_UTF8_TABLES
    rc_utf8((const unsigned char*)"", 0); /* looks what the processor has */
    int best = rc_utf8_tables;
    if (best >= 1) check(rc_utf8_by_table(from, size) == valid, "UTF-8 by table", size);
    if (best >= 2) check(rc_utf8_wide(from, size) == valid, "UTF-8, wide", size);
    for (int tables = 0; tables <= best; tables++) {
        rc_utf8_tables = tables;
#endif
        check(rc_utf8(from, size) == valid, "UTF-8", size);
        memset(to, 0, size);
        check(rc_copy_utf8(to, from, size) == valid, "copied UTF-8", size);
        check(!memcmp(to, from, size), "bytes of copied UTF-8", size);
        if (size < 32) {
            memcpy(wide_from, from, size);
            memset(wide_from + size, 0xFF, 32 - size);
            check(rc_copy_short_utf8(wide_to, wide_from, size) == valid, "short UTF-8", size);
            check(!memcmp(wide_to, from, size), "bytes of short UTF-8", size);
        }
#ifdef RC_UTF8_TABLES
    }
    rc_utf8_tables = best;
#endif
    quotable = rc_copy_quotable(to, from, size);
    check(quotable == plain_quotable(from, size), "what JSON has as it is", size);
    check(!memcmp(to, from, size), "bytes of a JSON string", size);
    check(rc_same(from, to, size), "the same bytes", size);
    if (size) {
        to[any(size)] ^= (unsigned char)(1 + any(255));
        check(!rc_same(from, to, size), "other bytes", size);
    }
    free(from), free(to), free(wide_from), free(wide_to);
}

static uint32_t plain_crc(const unsigned char* from, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; i++) {
        crc ^= from[i];
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xEDB88320u ^ (crc >> 1) : crc >> 1;
    }
    return ~crc;
}

enum { EVENTS = 40, HEADER = 19, SIZE_AT = 9 };

static void check_events(int streams) {
    long long marks[2 * EVENTS], found[2 * EVENTS];
    unsigned char stops[256] = {0};
    size_t total = 0, wrong, count = 1 + any(EVENTS);
    for (size_t i = 0; i < count; i++) {
        size_t size = HEADER + 4 + any(any(4) ? 60 : 700);
        marks[2 * i] = (long long)total;
        marks[2 * i + 1] = (long long)(total += size);
    }
    unsigned char* data = room(total);
    for (size_t i = 0; i < total; i++) data[i] = (unsigned char)any(256);
    for (size_t i = 0; i < count; i++) {
        unsigned char* event = data + marks[2 * i];
        size_t size = (size_t)(marks[2 * i + 1] - marks[2 * i]);
        for (int byte = 0; byte < 4; byte++) event[SIZE_AT + byte] = (unsigned char)(size >> 8 * byte);
        uint32_t crc = plain_crc(event, size - 4);
        for (int byte = 0; byte < 4; byte++) event[size - 4 + byte] = (unsigned char)(crc >> 8 * byte);
    }
    wrong = any(count + 1);
    if (wrong < count) data[marks[2 * wrong + 1] - 1 - (long long)any(4)] ^= (unsigned char)(1 + any(255));
    check(rc_crc_valid_until(data, marks, 0, count) == wrong, "the first wrong checksum", (size_t)streams);
    size_t cut = rc_crc_cut(data, 0, total, found, 0, EVENTS, 1 << 20, stops);
    check(cut <= wrong, "events cut as far as checksums are right", (size_t)streams);
    check(!memcmp(found, marks, 2 * cut * sizeof *marks), "marks of cut events", (size_t)streams);
    free(data);
}

static void check_crc(size_t size) {
    unsigned char* from = room(size);
    for (size_t i = 0; i < size; i++) from[i] = (unsigned char)any(256);
    uint32_t expected = plain_crc(from, size);
    check(rc_crc32(from, size) == expected, "CRC-32", size);
    check(~rc_crc_by_table(0xFFFFFFFFu, from, size) == expected, "CRC-32 by table", size);
#ifdef RC_CRC_FOLDS
    int best = rc_crc_streams;
    for (int streams = 0; streams <= best; streams++) {
        if (streams != 0 && streams != 1 && streams != 4) continue;
        rc_crc_streams = streams;
        check(rc_crc32(from, size) == expected, "CRC-32 by reduction", size);
        check_events(streams);
    }
    rc_crc_streams = best;
#else
    check_events(0);
#endif
    free(from);
}

static void check_numbers(void) {
    unsigned char digits[32], *memory = room(8);
    char known[32];
    uint64_t number = state >> any(64), little = 0, big = 0;
    int size = 1 + (int)any(8);
    size_t count = rc_put_digits(digits, number);
    check((int)count == snprintf(known, sizeof known, "%llu", (unsigned long long)number), "digits", count);
    check(!memcmp(digits, known, count), "a number's text", count);
    unsigned char* exact = room((size_t)size);
    for (int i = 0; i < size; i++) exact[i] = (unsigned char)any(256);
    for (int i = size; i--;) little = little << 8 | exact[i];
    for (int i = 0; i < size; i++) big = big << 8 | exact[i];
    check(rc_load_le(exact, size) == little, "a little-endian number", (size_t)size);
    check(rc_load_be(exact, size) == big, "a big-endian number", (size_t)size);
    free(exact), free(memory);
}

int main(int count, char** arguments) {
    state = 0x9E3779B97F4A7C15u ^ (count > 1 ? strtoull(arguments[1], NULL, 10) : 1);
    unsigned long rounds = count > 2 ? strtoul(arguments[2], NULL, 10) : 2000;
    for (unsigned long round = 0; round < rounds; round++) {
        size_t size = round < 400 ? round : any(round % 16 ? 300 : 5000);
        check_text(size);
        check_crc(size);
        check_numbers();
    }
#if defined(RC_CRC_FOLDS) && defined(RC_UTF8_TABLES)
    printf("CRC-32: %d streams; UTF-8: table %d\n", rc_crc_streams, rc_utf8_tables);
#else
    printf("plain paths only\n");
#endif
    return 0;
}
