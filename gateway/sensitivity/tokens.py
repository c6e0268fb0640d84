"""Tokens with a known form, issuer by issuer."""

from __future__ import annotations

from gateway.sensitivity.rule import Rule

RULES: tuple[Rule, ...] = ()
