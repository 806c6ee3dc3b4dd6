"""Connections to the hosts of an allow-list: for a run through its proxy, for the program itself by `guarded_request`."""
