"""Triton kernels; each has a torch reference of the same name in `kvarn_port.reference`."""
