"""Wrong versions of compute_causal_conv1d_metadata, one function each; faults.toml says how each must be caught."""
