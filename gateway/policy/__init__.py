"""The policy room: files in, a compiled policy out; facts in, a permit or a denial out.

Enters: the text of the policy files (`compile_bundle`) or the folder that holds them (`load_bundle`),
and the `Facts` of one request. Leaves: `CompiledPolicy`, then `Permit | Denial` (`evaluate`), and for
people an `Explanation`. The room never reads a prompt, opens no connection, knows no clock, and never
gives a permit for a destination whose clearance is below the label.
"""
