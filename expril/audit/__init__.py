"""An auditor's tools: nothing here believes what is claimed.

* `results`: the results of an audit by attack, its verdict (`AuditResult.passed`) and its JSON
* `document`, `tables`: the page of an audit, and tables for the terminal
* `attack`: the attack on all that is installed, and on all that is broken on purpose
* `kinds`: what an auditor knows of each query kind: its exact loss, invented records, a transcript to read
* `recompute`: what was spent, from what was signed alone; a verdict is formed in `recompute/verdicts.py`, and nowhere
  else: `Verdict` of a transcript, a ledger, a run, and all that is given together
* `package`: a claim as one folder that a stranger checks
* `witness`: witnesses of ledgers, and entries held against what they co-signed
"""
