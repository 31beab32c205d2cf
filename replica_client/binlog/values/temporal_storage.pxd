cpdef object date_of(unsigned int packed)
cpdef object time2_of(unsigned long long raw, int fraction_digits)
cpdef object datetime2_of(unsigned long long raw, int fraction_digits)
cpdef object timestamp2_of(unsigned long long raw, int fraction_digits)
