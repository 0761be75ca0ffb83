"""Positive controls: mechanisms that are broken on purpose, and correct ones to count false alarms with.

* `tables`: `CONTROLS` and `CLEAN`, by name, and the game against one of them
* `control`: what a control is, and the game against one
* `broken`, `thresholds`, `clock`, `pooled`, `fitted`: broken mechanisms
* `clean`: correct ones
* `laws`: their noise

Those that go through a curator's own path are in `expril.audit.kinds`.
"""
