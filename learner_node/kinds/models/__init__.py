"""Learners' models, made from what each curator fitted to its own records.

* `classifiers`: naive Bayes, forests and linear classifiers
* `moments`: ridge regression and principal components
* `unsupervised`: k-means and principal components as results to look at
"""
