"""Who asks: bearer tokens of configured issuers, verified against their key sets.

Enters: the `authorization` value of a `RawRequest`. Leaves: a `Principal`, or `NotAuthenticated` /
`KeySetUnavailable`.
Never: a token that was not verified, a key that a token brought along, a fetch to an address that a
token names, or a token, subject or key in a log, an error or a repr.
"""
