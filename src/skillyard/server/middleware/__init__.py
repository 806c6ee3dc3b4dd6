"""The middlewares that every request and answer passes. Nothing here imports `routes`."""
