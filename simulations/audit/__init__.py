"""An auditor's tools: nothing here believes what is claimed.

* `results`: what each part found, as one form for tables, JSON and page
* `recompute`: what was spent, from what was signed alone
* `shown`: a transcript for a person's eyes
* `witness`: witnesses of ledgers, and entries held against what they co-signed
* `studies`: attacks on whole studies
"""
