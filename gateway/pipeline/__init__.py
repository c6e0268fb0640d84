"""The walk: one function that admits a request, one relay that carries the answer.

Enters: a `RawRequest`. Leaves: an `Admitted`, then filtered bytes for the client.
Never: a second path, a hook, or an import of a room; rooms are handed in by `assembly`.
"""
