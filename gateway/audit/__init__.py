"""The audit log: every decision as a durable, signed, checkable record.

Enters: `RequestRecord` values of the walk, and events of the log itself.
Leaves: receipts once a record is durable; segment files, signed checkpoints, reports and exports.
Never: a receipt before the disk has the bytes, a retry of a failed fsync, a signature over a tree that
contradicts an earlier one, or text of a prompt, an answer or a credential.

`tree`, `checkpoint`, `frames`, `layout` and `verify` need only `cryptography` and the standard library,
so that an examiner can run them without the gateway.
"""
