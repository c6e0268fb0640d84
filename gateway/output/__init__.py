"""The output filter: what a client may read of an answer.

In: the stream events of one answer, a function that finds identifiers and secrets in a text, a profile.
Out: the same events with findings masked, the choice stopped, or `OutputBlocked`.
Never: holds plain prose back, depends on how the text was cut into deltas, lets a tail out unscanned,
imports a detector, does IO, keeps or reports the matched text.
"""
