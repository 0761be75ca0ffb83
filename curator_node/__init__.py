"""The curator's side: private records, a durable ledger, noise, and `handle(bytes) -> bytes`.

A curator never runs code that it was sent, and this package imports neither torch nor the learner's package.
"""
