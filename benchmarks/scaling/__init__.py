"""How long it takes with very many records, whether an index is used, and which wall comes first.

`python -m benchmarks.scaling` fills a database of each kind, measures each hot query, and prints what follows for larger sites.
docs/scaling.md holds what came out.
"""
