"""The curator's side: private records, a durable ledger, noise, and `handle(bytes) -> bytes`.

Never runs code that it was sent, never imports torch, and never sees the learner's package.
"""
