"""Triton kernels for the causal convolution of a batch of rows, and adapters that run other people's."""
