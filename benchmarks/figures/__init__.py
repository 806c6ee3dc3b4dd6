"""What the benchmarks have in common; nothing here runs by itself."""
