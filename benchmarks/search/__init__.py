"""How well and how fast skills are found for requests; see benchmarks/README.md."""
