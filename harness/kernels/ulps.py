"""Ulps: how far a convolution's results lie from those of a loop in float64.

Only where results are not exact, and only to be reported: what decides is whether two kernels agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from harness.case import Case, DrawnValue

if TYPE_CHECKING:
    import torch

FARTHEST: Final = 1e9
"""Stands for a distance from a result that is not a number."""


def measure(case: Case, returned: Any) -> Mapping[str, float]:
    """The largest distance of the returned tokens from the float64 loop, in two ways.

    - ``ulps from float64``: numbers of the element type that lie between. This is what a reader expects and is 1 or 2
      for nearly all results. But each product is rounded to the element type before it is added, and where large terms
      cancel, the small sum keeps the large terms' errors: the distance can then be of any size, and the largest of many
      results says little.
    - ``error by size of terms``: the error over the sum of the terms' magnitudes, in units of the element type's
      epsilon, which cancelling does not change. Rounding the products and the result costs at most 1 (in float32, whose
      sums are rounded as well, 4); SiLU, nowhere steeper than 1.1, at most a tenth more. A larger number means another
      algorithm.
    """
    import torch

    from harness.kernels.conv_cases import facts_of

    facts = facts_of(case.arguments)
    if (
        not isinstance(returned, torch.Tensor)
        or returned.shape != facts.x.shape
        or str(returned.dtype)[6:] != facts.x.dtype
    ):
        return {}
    if isinstance(facts.x, DrawnValue) and facts.x.numbers == "extreme":
        return {}
    exact, size = convolution_in_float64(case)
    written = ~exact.isnan()
    got, exact, size = returned.cpu()[written], exact[written], size[written]
    if got.numel() == 0:
        return {}
    info = torch.finfo(got.dtype)
    relative = (got.double() - exact).abs() / size.clamp(min=info.tiny) / info.eps
    label = f"{facts.activation or 'no activation'}, {facts.x.dtype}"
    return {
        f"ulps from float64, {label}": float(ulp_distance(got, exact.to(got.dtype)).max()),
        f"error by size of terms, {label}": float(relative.nan_to_num(FARTHEST, FARTHEST).clamp(max=FARTHEST).max()),
    }


def convolution_in_float64(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Every output of a case in float64, and the sum of its terms' magnitudes; NaN for tokens that have no output.

    Shape (dim, tokens) both. SiLU is ``y / (1 + exp(-y))``.
    """
    import torch

    from harness.kernels.conv_cases import facts_of
    from harness.materialise import live_value

    facts, cpu = facts_of(case.arguments), torch.device("cpu")
    x, weight, states = (live_value(value, cpu).double() for value in (facts.x, facts.weight, facts.states))
    dim, width = weight.shape
    bias = torch.zeros(dim, 1).double() if facts.bias is None else live_value(facts.bias, cpu).double()[:, None]
    sums, sizes = torch.full_like(x, torch.nan), torch.full_like(x, torch.nan)
    begin = 0
    for length, line, continues in zip(facts.lengths, facts.lines, facts.continues, strict=True):
        end = begin + length
        if line != facts.null_block and length:
            before = states[line] if continues else torch.zeros(dim, width - 1).double()
            terms = torch.cat([before, x[:, begin:end]], dim=1).unfold(1, width, 1) * weight[:, None, :]
            sums[:, begin:end] = bias + terms.sum(dim=2)
            sizes[:, begin:end] = bias.abs() + terms.abs().sum(dim=2)
        begin = end
    return (sums / (1 + torch.exp(-sums)) if facts.activation == "silu" else sums), sizes


def ulp_distance(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """How many steps from one number of the element type to the next lead from ``left`` to ``right``, as int64.

    Both are float16, bfloat16 or float32; -0.0 and 0.0 are one number. NaN lies beyond infinity.
    """
    return (ordered(left) - ordered(right)).abs()


def ordered(numbers: torch.Tensor) -> torch.Tensor:
    """The place of each number among all numbers of its type, as int64: 0 for zeros, 1 for the next one, and so on."""
    import torch

    whole = {2: torch.int16, 4: torch.int32}[numbers.dtype.itemsize]
    bits = numbers.contiguous().view(whole).long()
    # Below zero, bits grow as numbers fall, from the smallest integer on.
    return torch.where(bits < 0, torch.iinfo(whole).min - bits, bits)
