"""Benchmarks: what the targets of the issue were measured to be. Run `python -m benchmarks [NAME ...]`."""
