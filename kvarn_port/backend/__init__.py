"""The one place that imports vLLM: what a release is wired to the kernels with."""
