"""What medical studies publish - counts, Table 1, effects, curves, regressions - from noisy counts of a few tables.

`part` says what an analysis is: it names the tables that it needs (`noisy_table`) and reads their answers. Estimates,
intervals and tests use the answers as they came, with the exact law of their noise (`noise_law`).
"""
