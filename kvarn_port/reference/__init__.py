"""The plain torch truth beside each kernel: the same name and arguments, no Triton, float64."""
