"""Wire formats, both ways, as pure code.

Enters: bytes of a client's body, bytes of a provider's answer, events of an answer.
Leaves: a `ChatRequest`, a body that was serialised anew, events, bytes for the client.
Never: a socket, a clock, a byte of the client's own body, a provider's field that was not asked for.
"""
