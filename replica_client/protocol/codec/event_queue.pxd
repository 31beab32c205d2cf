from replica_client.protocol.codec.crc cimport cut_valid, valid_until
from replica_client.protocol.codec.memory cimport copy_bytes, load_le, longs, move_bytes
from replica_client.protocol.codec.turns cimport Turn

cdef class EventQueue:
    cdef bytearray _memory
    cdef unsigned char* data
    cdef Py_ssize_t _capacity
    cdef object _lent
    cdef bytearray _marks_memory
    cdef long long* marks
    cdef Py_ssize_t _marks_capacity
    cdef Py_ssize_t first
    cdef Py_ssize_t last
    cdef Py_ssize_t first_valid
    cdef Py_ssize_t last_valid
    cdef Py_ssize_t tail
    cdef Py_ssize_t filled
    cdef readonly long long waiting
    cdef int _cut_valid(self, long long max_event_size, unsigned char* stops, Turn turn) except -1
    cdef int _make_room(self, Py_ssize_t size) except -1
    cdef int _move_out(self, Py_ssize_t begin, Py_ssize_t capacity) except -1
    cdef int _move_to_front(self) except -1
    cdef int _mark(self, Py_ssize_t start, Py_ssize_t end) except -1
