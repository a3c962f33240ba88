"""What the engine knows of kernels: their arguments as cases, and probes that launch them, one a module."""
