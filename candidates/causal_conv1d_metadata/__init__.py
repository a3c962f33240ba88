"""Ideas for building the program tables of the causal convolution without a Python loop."""
