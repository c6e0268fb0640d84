"""What a policy folder must show before it acts: one reading of its bytes, signatures, its revision.

Enters: the mounted folder, the trusted signers, the revision that acted last. Leaves: `Content` whose bytes
are the ones that were signed, compiled and are then used. The package decides nothing about requests.
"""
