"""Positive controls: all that is broken on purpose, and correct mechanisms to count false alarms with.

* `mechanisms`: `CONTROLS` and `CLEAN` by name, mechanisms on numbers, and the game against one of them
* `curators`: `PATH_CONTROLS` by name, curators that are attacked by their own path; `parts`: what is broken in them
* `answerers`: of single kinds, that are broken
* `rounded_counts`: a service without noise, which differencing is played on for comparison
"""
