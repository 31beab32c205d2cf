from replica_client.protocol.binlog.values.temporal cimport new_date, new_datetime, new_time, new_timestamp

cpdef object date_of(unsigned int packed)
cpdef object time2_of(unsigned long long raw, int fraction_digits)
cpdef object datetime2_of(unsigned long long raw, int fraction_digits)
cpdef object timestamp2_of(unsigned long long raw, int fraction_digits)
cdef long long date_days(unsigned int packed) except? -1 nogil
cdef long long time2_microseconds(unsigned long long raw, int fraction_digits) except? -1 nogil
cdef long long datetime2_microseconds(unsigned long long raw, int fraction_digits) except? -1 nogil
cdef long long timestamp2_microseconds(unsigned long long raw, int fraction_digits) except? -1 nogil
cdef Py_ssize_t put_date(unsigned char* target, Py_ssize_t to, unsigned int packed) except -1
cdef Py_ssize_t put_time2(
    unsigned char* target, Py_ssize_t to, unsigned long long raw, int fraction_digits) except -1
cdef Py_ssize_t put_datetime2(
    unsigned char* target, Py_ssize_t to, unsigned long long raw, int fraction_digits) except -1
cdef Py_ssize_t put_timestamp2(
    unsigned char* target, Py_ssize_t to, unsigned long long raw, int fraction_digits) except -1
cdef Py_ssize_t put_day(unsigned char* target, Py_ssize_t to, long long days) except -1
cdef Py_ssize_t put_clock(
    unsigned char* target, Py_ssize_t to, long long microseconds, int fraction_digits) except -1
cdef unsigned int packed_day(long long days) noexcept
