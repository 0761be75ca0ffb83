"""A query kind that is not shipped: two turns a query, a state between them, charges by what was released.

A file a room, as in the product: `kind` (protocol), `answerer` (curator), `reader` (learner), `audit` (auditor).

The first turn asks how many records lie above a threshold: a noisy number is drawn and kept, and its tens are released.
The second asks for the number itself. Where the tens are below the planned level it is what was kept, which costs
nothing, since nothing is drawn anew; from there on it is drawn anew, and costs as much again.
"""
