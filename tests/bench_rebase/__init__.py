"""How often each tool lands a real change on refactored code: `python -m tests.bench_rebase`."""
