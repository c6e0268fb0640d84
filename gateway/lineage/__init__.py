"""What the gateway said before keeps its label when it comes back.

Enters: the released events of an answer above `internal`; later, the assistant turns of a request. Leaves:
keyed marks to remember, and the label that remembered turns carry.

A client that cuts the sensitive question out of a conversation still sends the answer to it. Its words may
hold no identifier and yet tell what the question told. So an answer inherits the label of its request, and
every later request that contains the answer has that label as its floor.

Never kept: a text, or anything from which one could be guessed without the key.
"""
