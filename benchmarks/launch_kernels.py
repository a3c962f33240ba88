"""Launch kernels: every Triton candidate of the convolution on a few batches, for a sanitizer to watch.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck python benchmarks/launch_kernels.py

Without torch's cache of device memory every tensor is an allocation of its own, so that a sanitizer sees what is
written or read beside it. Nothing is compared here.
"""

from __future__ import annotations

import argparse
import importlib

import torch

from harness.contracts import contract_named
from harness.load.spec import registered_candidates
from harness.materialise import live_case, signature_of

CONTRACT = "causal_conv1d_prefill"
MOST = 40
CONTROL = "no_mask_on_channels"
"""A seeded fault that writes past the last channel."""


def main() -> None:
    """Run, and say how many launches there were."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=MOST, help="cases of the bounded space, evenly spread over it")
    parser.add_argument("--control", action="store_true", help="launch a faulty kernel, which must be found")
    options = parser.parse_args()
    contract, device = contract_named(CONTRACT), torch.device("cuda")
    module, _, function = contract.reference.partition(":")
    signature = signature_of(getattr(importlib.import_module(module), function))
    space = contract.space("gate")
    spread = [space[index * len(space) // options.cases] for index in range(options.cases)]
    cases = [*spread, *contract.scale("gate")]
    if options.control:
        kernels = [getattr(importlib.import_module(f"tests.faults.{CONTRACT}.memory"), CONTROL)]
    else:
        own = [item for item in registered_candidates()[CONTRACT] if item.traits.upstream is None]
        kernels = [getattr(importlib.import_module(f"candidates.{CONTRACT}.{item.name}"), function) for item in own]
    for candidate in kernels:
        for case in cases:
            arguments = live_case(case, signature, device, derived=contract.derived)
            candidate(*arguments.positional, **arguments.keyword)
        torch.cuda.synchronize()
    print(f"{len(cases) * len(kernels)} launches of {len(kernels)} kernel{'s' * (len(kernels) > 1)}")


if __name__ == "__main__":
    main()
