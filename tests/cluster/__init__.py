"""A real two-node Kubernetes in namespaces of its own, for the tests that a stand-in cannot replace.

`python -m tests.cluster up` and `down` by hand; the session fixture `cluster` of `conftest.py` in tests. It needs
Linux and root, no container registry and no Docker. `watchdog.py` says how it leaves nothing behind.
"""
