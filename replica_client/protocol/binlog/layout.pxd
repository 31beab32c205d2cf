# cython: boundscheck=False, wraparound=False, cdivision=True
# The compiled form of layout.py: the same numbers as constants, the same functions inline.
cdef enum:
    HEADER_SIZE = 19
    TIMESTAMP_OFFSET = 0
    TYPE_OFFSET = 4
    SERVER_ID_OFFSET = 5
    EVENT_SIZE_OFFSET = 9
    NEXT_POSITION_OFFSET = 13
    FLAGS_OFFSET = 17
    ARTIFICIAL_FLAG = 0x20
    CHECKSUM_SIZE = 4

    GTID_FLAGS_OFFSET = 0
    GTID_SID_OFFSET = 1
    GTID_SID_SIZE = 16
    GTID_NUMBER_OFFSET = 17
    GTID_NUMBER_SIGN_OFFSET = 24
    GTID_CLOCK_OFFSET = 25
    GTID_LAST_COMMITTED_OFFSET = 26
    GTID_SEQUENCE_OFFSET = 34
    GTID_TIMESTAMP_OFFSET = 42
    GTID_TIMESTAMP_SIZE = 7
    GTID_VERSION_SIZE = 4
    GTID_TICKET_SIZE = 8
    LOGICAL_CLOCK = 2
    SIGN_BIT = 0x80

    MARIADB_SEQUENCE_OFFSET = 0
    MARIADB_SEQUENCE_SIGN_OFFSET = 7
    MARIADB_DOMAIN_OFFSET = 8
    MARIADB_FLAGS_OFFSET = 12
    MARIADB_FIELDS_OFFSET = 13
    MARIADB_COMMIT_ID_SIZE = 8
    MARIADB_GTID_SIZE = 19
    MARIADB_STANDALONE = 0x01
    MARIADB_COMMIT_ID = 0x02
    MARIADB_UNUSUAL = 0xE1
    MARIADB_THREAD_ID = 0x10
    MARIADB_THREAD_ID_SIZE = 4

    QUERY_THREAD_OFFSET = 0
    QUERY_EXEC_TIME_OFFSET = 4
    QUERY_DATABASE_SIZE_OFFSET = 8
    QUERY_STATUS_SIZE_OFFSET = 11
    QUERY_POST_HEADER_SIZE = 13

    TABLE_ID_SIZE = 6
    TABLE_MAP_POST_HEADER_SIZE = 8
    ROWS_FLAGS_OFFSET = 6
    ROWS_POST_HEADER_SIZE = 8
    ROWS_EXTRA_SIZE = 2
    PARTITION_INSERT_SIZE = 5
    PARTITION_UPDATE_SIZE = 7

    XID_SIZE = 8

    LENGTH_NULL = 251
    LENGTH_2_BYTES = 252
    LENGTH_3_BYTES = 253
    LENGTH_8_BYTES = 254
    LENGTH_ERROR = 255

    ROWS_KIND = 0x03
    ROWS_EXTRA = 0x04
    ROWS_COMPRESSED = 0x08
    ROWS_OTHER = 0x10

    INSERT = 0
    UPDATE = 1
    DELETE = 2

cdef enum EventClass:
    UNKNOWN = 0
    OUTSIDE = 1
    GTID = 2
    GTID_BEGIN = 3
    BEGIN = 4
    COMMIT = 5
    ROLLBACK = 6
    PREPARE = 7
    PART = 8
    ANNOTATION = 9
    TABLE_MAP = 10
    STATEMENT = 11
    PAYLOAD = 12
    LOAD_PART = 13
    LOAD_END = 14
    ROWS = 15
    QUERY = 16
    QUERY_COMPRESSED = 17
    MARIADB_GTID = 18
    XA_PREPARE = 19

cdef inline Py_ssize_t query_text(const unsigned char* data, Py_ssize_t body) noexcept nogil:
    return (
        body + QUERY_POST_HEADER_SIZE + data[body + QUERY_DATABASE_SIZE_OFFSET] + 1
        + (data[body + QUERY_STATUS_SIZE_OFFSET] | data[body + QUERY_STATUS_SIZE_OFFSET + 1] << 8)
    )

cdef inline Py_ssize_t rows_columns(
    const unsigned char* data, Py_ssize_t body, int form
) noexcept nogil:
    cdef Py_ssize_t at = body + ROWS_POST_HEADER_SIZE
    if form & ROWS_EXTRA:
        at += data[at] | data[at + 1] << 8
    return at
