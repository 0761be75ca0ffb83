"""The attack on what is installed: every registered query kind, by the way that a curator's answer takes."""

from simulations.audit.kinds.attack import audit_kind, chosen_kinds, kinds_to_audit

__all__ = ["audit_kind", "chosen_kinds", "kinds_to_audit"]
