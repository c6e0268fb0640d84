"""The command `tidegate`.

Enters: arguments and files. Leaves: text for people, JSON with `--json`, exit status.
Never: a secret on the screen other than a token that was asked for.
"""
