"""Positive controls: what is broken on purpose, and correct mechanisms with which false alarms are counted.

* `mechanisms`: `CONTROLS` and `CLEAN` by name, mechanisms on numbers, and the game against one of them
* `curators`: `PATH_CONTROLS` by name, curators that are attacked as the shipped kinds are
* `parts`: the broken noise, data sets and answerers of those curators
"""
