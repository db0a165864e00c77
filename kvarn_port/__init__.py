"""Attention over paged caches for speculative decoding: torch references and Triton kernels.

Nothing here imports patchkit or vllm; the kernels' files are also placed into vLLM's tree.
"""
