"""Wrong versions of the causal convolution's kernel, one function each; faults.toml says how each must be caught."""
