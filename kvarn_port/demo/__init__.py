"""What the formats of a KV cache cost in quality, measured on the real keys and values of a model.

Plain torch but for `models`, which takes a model from transformers.
"""
