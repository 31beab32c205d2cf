# The constants of json_layout.py in C, so that the compiler can make a switch of comparisons.
cdef enum:
    SMALL_OBJECT = 0
    SMALL_ARRAY = 2
    LITERAL = 4
    INT16 = 5
    UINT16 = 6
    INT32 = 7
    UINT32 = 8
    INT64 = 9
    UINT64 = 10
    DOUBLE = 11
    STRING = 12
    OPAQUE = 15
    MAX_DEPTH = 100
    EXPANSION_LIMIT = 2
