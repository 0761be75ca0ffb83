"""Learners' models from what curators fitted in site.

* `classifiers`: naive Bayes, forests and linear classifiers
* `moments`: ridge regression and principal components
* `unsupervised`: k-means and principal components as results to look at
"""
