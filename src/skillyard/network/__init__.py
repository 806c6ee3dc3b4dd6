"""Hosts, URLs and guarded connections: allow-list rules, address rules, guarded HTTP requests, and the allow-list proxy.

It knows nothing of sandboxes or skills; several rooms use it.
"""
