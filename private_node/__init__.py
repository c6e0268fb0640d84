"""The private node: a second program that runs vLLM with a mixture-of-experts model on own machines.

Enters: a launch profile, a model folder, a key file. Leaves: an HTTP endpoint on which three routes answer,
each to the holder of the key. It never imports the gateway and the gateway never imports it: they meet over
HTTP only. It never fetches a model, never logs what a client sends, and leaves no process behind.
"""
