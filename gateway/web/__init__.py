"""The only Litestar code: routes in, ASGI replies out.

Enters: HTTP. Leaves: `RawRequest` into the walk, bytes to clients.
Never: a decision about data, a header of a client passed on, an exception's text in a body.
"""
