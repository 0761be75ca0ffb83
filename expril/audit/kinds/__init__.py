"""What an auditor knows of each query kind; nothing here attacks.

* `invented`: records that are made up, and pairs of neighbouring sets of them
* `path`: a question, its registered answerer, and all numbers that come back
* `exact`: worst-case loss by enumeration; where noise is drawn in shares, some of which may be known, too
* `shown`: a transcript for a person's eyes
"""
