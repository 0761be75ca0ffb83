"""Hypothesis strategies for an author of extensions: schemas, records, partitions, and queries of each shipped kind.

They need Hypothesis (`pip install "expril[extend]"`), so nothing but a contract and tests imports them. The strategies
of a kind draw (planned query, encoded body of its one turn), lawful under a schema.
"""
