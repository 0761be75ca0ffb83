"""What a curator fitted in site, as a learner's own model; one file a method.

* `naive_bayes`, `forest`, `ridge`, `components`: releases are sums over records, so all curators' sums are one model
* `linear`: each curator's weights are a model of their own; several are averaged
* `clusters`: each curator's clusters begin at the same centres and then go their own way; several are listed together
"""
