"""The learner's side: what to ask, what to do with the answers, and the scikit-learn style door to both.

Holds unlabelled source records and noisy answers, nothing else. Never sees the curator's package.
"""
