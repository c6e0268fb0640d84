"""Tidegate: a gateway that decides from the data itself where an LLM request may go.

Enters: HTTP requests of applications inside the company.
Leaves: the same requests, each only towards a destination that is cleared for its label.
Never: a byte labelled above a destination's clearance, on any path.
"""
