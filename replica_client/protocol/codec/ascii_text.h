/* The C of ascii_text.pxd; ascii_text.py has the same functions for plain Python. */
#ifndef REPLICA_CLIENT_CODEC_ASCII_TEXT_H
#define REPLICA_CLIENT_CODEC_ASCII_TEXT_H

#include <stdint.h>
#include <string.h>

/* cython: boundscheck=False, wraparound=False, cdivision=True The compiled form of ascii_text.py:
   ASCII is copied after a look at its high bits; all else, and what Python keeps one object of
   (the empty text and single characters), is left to Python's decoder. */
static inline PyObject* rc_text_of(const unsigned char* data, Py_ssize_t offset, Py_ssize_t size) {
    const unsigned char* p = data + offset;
    const uint64_t high = 0x8080808080808080ULL;
    uint64_t seen = 0, word, other;
    Py_ssize_t i = 0;
    PyObject* text;
    if (size < 2) return PyUnicode_DecodeUTF8((const char*)p, size, NULL);
    for (; i + 16 <= size; i += 16) {
        memcpy(&word, p + i, 8);
        memcpy(&other, p + i + 8, 8);
        seen |= word | other;
    }
    if (size >= 8) {
        if (i + 8 <= size) {
            memcpy(&word, p + i, 8);
            seen |= word;
        }
        memcpy(&word, p + size - 8, 8);
        seen |= word;
    } else {
        for (; i < size; i++) seen |= (uint64_t)p[i] & 0x80;
    }
    if (seen & high) return PyUnicode_DecodeUTF8((const char*)p, size, NULL);
    text = PyUnicode_New(size, 127);
    if (text != NULL) memcpy(PyUnicode_DATA(text), p, size);
    return text;
}

#endif
