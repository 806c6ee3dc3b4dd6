"""A whole site on one machine, with faults at random: nothing is lost, nothing happens twice.

`python -m benchmarks.soak --seconds 60` (or `make soak SECONDS=60`) starts servers, workers, a proxy, a database and a store on
loopback, lets clients ask for runs and installs while its parts are killed, paused and cut off, heals everything, and counts.
`python -m benchmarks.soak.shared_home` does it with one home that a server and commands share. docs/operating.md says how to
read the reports.
"""
