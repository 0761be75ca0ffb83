"""The unit in which a query's work is stated: multiply-adds of a matrix product.

One stands for a tenth of a nanosecond of one core. Products of large matrices take half of that; everything else is
stated so that it takes at most about that on a server of 2024, whatever a learner asks. Constants named `..._COST` are
per record, those named `..._ONCE` per query; each was measured on one core, and `python -m benchmarks work` measures
the worst queries that they let through.
"""

CALL_ONCE = 20_000
"""A numpy call on a handful of numbers, with the Python around it: 2 microseconds."""
BYTE_ONCE = 60
"""A byte of weights or centres: read, checked, digested, widened and copied, 6 nanoseconds."""
