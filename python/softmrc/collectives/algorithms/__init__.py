"""The algorithms, one mechanism a file: each writes the steps of one rank into a `Plan`.

Every algorithm fixes the order in which elements of the ranks are combined by the ranks alone, never by arrival, so
that one world size gives one result, the same bits on every rank.
"""
