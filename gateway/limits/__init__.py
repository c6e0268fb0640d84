"""How much a tenant may use.

Enters: a verified principal, a request id and an estimate of tokens; later, the usage. Leaves: a
`Reservation` (all buckets taken) or `Exceeded` (none taken).

This room never lets a request through unlimited: without Redis there is a small local cap, and what it
lets through is marked degraded, good for private destinations only. It sees no prompt text beyond its
length.
"""
