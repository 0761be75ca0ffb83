"""The learner's side: what to ask, what to do with the answers, and the scikit-learn style door to both.

It holds unlabelled source records and noisy answers, nothing else. It never imports the curator's package.
"""
