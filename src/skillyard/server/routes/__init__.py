"""The routes of Skillyard's own HTTP API, one module for each resource; `application` puts the routers together."""
