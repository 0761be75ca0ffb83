"""An auditor's tools: nothing here believes what is claimed.

* `results`: the results of an audit by attack, its verdict (`AuditResult.passed`) and its JSON
* `document`, `brief`, `tables`: the page of an audit, its first screen, and tables for the terminal
* `attack`: the attack on all that is installed, and on all that is broken on purpose
* `kinds`: for each query kind, questions to attack, exact losses, and words for transcripts
* `recompute`: what was spent, from signed bytes alone; its `verdicts` forms every verdict on a transcript, a ledger, a
  run, and all inputs together
* `package`: a claim as one folder that a stranger checks
* `witness`: a witness of ledgers, which co-signs their checkpoints
"""
