"""Run records: figures that the benchmarks themselves write, and the claims that go by them.

What writes a record (`run` and what it imports) needs nothing but the standard library, since it
runs on machines that have a GPU and little else.
"""
