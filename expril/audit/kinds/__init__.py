"""The attack on what is installed: every registered query kind, by the way that a curator's answer takes.

* `invented`: records that are made up, and pairs of neighbouring sets of them
* `leading`: how a question is led through its turns, of one curator or of several together
* `path`: a question, its registered answerer, and all numbers that come back
* `search`: the search for the pair that tells most
* `exact`: worst-case loss by enumeration
* `shares`: the same where noise is drawn in shares, some of which may be known
* `charges`: the attack on charges that depend on what was released
* `attack`: all of that for one kind
* `checks`: whether a curator's `handle` releases what was attacked
* `controls`, `broken`, `broken_sampler`, `broken_statistics`, `holdouts`, `known_keys`: curators broken on purpose
"""

from expril.audit.kinds.attack import audit_kind, chosen_kinds, kinds_to_audit
from expril.audit.kinds.checks import path_checks

__all__ = ["audit_kind", "chosen_kinds", "kinds_to_audit", "path_checks"]
