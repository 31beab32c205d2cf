# cython: boundscheck=False, wraparound=False, cdivision=True
# The compiled form of what groups.py has for events that are not decoded.
from libc.string cimport memcmp

from replica_client.protocol.binlog.layout cimport EventClass, QUERY_POST_HEADER_SIZE, query_text

cdef enum State:
    BETWEEN = 0
    NAMED = 1
    OPEN = 2
    PAYLOAD = 3
    PAYLOAD_OPEN = 4
    BEGUN = 5
    NAMED_PARTS = 6
    PARTS = 7

cdef enum Ending:
    STATE = 7
    ENDS = 8
    COMPLETE = 16
    ABANDONED = 32
    UNCERTAIN = 64

cdef inline int step(const unsigned char* steps, int state, int event_class) noexcept nogil:
    return steps[state << 5 | event_class]

cdef inline int control_of(
    const unsigned char* data, Py_ssize_t body, Py_ssize_t end
) noexcept nogil:
    if end < body + QUERY_POST_HEADER_SIZE:
        return EventClass.QUERY
    cdef Py_ssize_t text = query_text(data, body)
    if end == text + 5 and not data[text - 1] and not memcmp(data + text, b"BEGIN", 5):
        return EventClass.BEGIN
    if end == text + 6 and not data[text - 1] and not memcmp(data + text, b"COMMIT", 6):
        return EventClass.COMMIT
    return EventClass.QUERY

cdef inline int is_plain_statement(
    const unsigned char* data, Py_ssize_t text, Py_ssize_t end
) noexcept nogil:
    if end <= text + 8 or data[text - 1]:
        return False
    return data[text] not in (b'R', b'r', b'X', b'x')
