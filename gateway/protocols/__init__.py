"""Prompts and tool sets by name and version, pinned by digest.

Enters: a `ChatRequest` and a `Registry` built from files. Leaves: a `ResolvedRequest` in which the
prompt is a message, the tools stand in the list, and the pins name exactly what was used.
Never: a path made of a client's words, code in a template, a document that the lock does not know.
"""
