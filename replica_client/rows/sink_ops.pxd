# The numbers of sink_ops.py, as constants that a C compiler sees.
cdef enum:
    OP_UNKNOWN = 0
    OP_SIGNED = 1
    OP_UNSIGNED = 2
    OP_FLOAT = 3
    OP_DOUBLE = 4
    OP_DECIMAL = 5
    OP_DATE = 6
    OP_TIME = 7
    OP_DATETIME = 8
    OP_TIMESTAMP = 9
    OP_YEAR = 10
    OP_BIT = 11
    OP_ENUM = 12
    OP_SET = 13
    OP_UTF8 = 14
    OP_UTF8_CHAR = 15
    OP_BYTES = 16
    OP_COPY_1 = 100
    OP_COPY_2 = 101
    OP_COPY_4 = 102
    OP_COPY_8 = 103
    OP_JSON = 104
    OP_OBJECT = 105
    OP_PASS = 106

    FIXED = 0
    BYTES = 1
    DICTIONARY = 2
    DECIMAL = 3
    OBJECTS = 4

    LOOKUP_SIZE = 256

    NO_STEP = -127
