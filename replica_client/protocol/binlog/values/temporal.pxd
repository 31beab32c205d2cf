cdef class Temporal:
    pass

cdef class Date(Temporal):
    cdef readonly int year
    cdef readonly int month
    cdef readonly int day

cdef class Time(Temporal):
    cdef readonly bint negative
    cdef readonly int hours
    cdef readonly int minutes
    cdef readonly int seconds
    cdef readonly int microseconds
    cdef readonly int fraction_digits

cdef class DateTime(Temporal):
    cdef readonly int year
    cdef readonly int month
    cdef readonly int day
    cdef readonly int hour
    cdef readonly int minute
    cdef readonly int second
    cdef readonly int microsecond
    cdef readonly int fraction_digits

cdef class Timestamp(Temporal):
    cdef readonly long long _seconds
    cdef readonly int microseconds
    cdef readonly int fraction_digits

cdef Date new_date(int year, int month, int day)
cdef Time new_time(bint negative, int hours, int minutes, int seconds, int microseconds,
                   int fraction_digits)
cdef DateTime new_datetime(int year, int month, int day, int hour, int minute, int second,
                           int microsecond, int fraction_digits)
cdef Timestamp new_timestamp(long long seconds, int microseconds, int fraction_digits)
