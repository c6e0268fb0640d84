"""Benchmarks: figures for people, never pass or fail in the test suite."""
