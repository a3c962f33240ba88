"""Render evidence: the measured part of docs/kernels.md, made from the file that the run on a GPU has written.

    python benchmarks/render_evidence.py [--check]

``--check`` changes nothing and fails where the document is not what the file says.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "benchmarks" / "h200_evidence.json"
DOCUMENT = ROOT / "docs" / "kernels.md"
DID = {
    **{"replay": "saved", "scale": "large", "property": "drawn", "probe": "probed"},
    **{"asynchrony": "on a busy device", "graph": "as graphs", "concurrency": "at once"},
}
"""What the searches are called in reports."""
BEGIN, END = "<!-- evidence: begin -->", "<!-- evidence: end -->"


def main() -> None:
    """Write the document, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    old = DOCUMENT.read_text(encoding="utf-8")
    new = with_evidence(old, json.loads(EVIDENCE.read_text(encoding="utf-8")))
    if options.check and new != old:
        raise SystemExit(f"{DOCUMENT} is not what {EVIDENCE} says: run python benchmarks/render_evidence.py")
    DOCUMENT.write_text(new, encoding="utf-8")


def with_evidence(text: str, evidence: Mapping[str, Any]) -> str:
    """A document with its measured part made anew."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{rendered(evidence)}\n{END}{tail}"


def rendered(evidence: Mapping[str, Any]) -> str:
    """The measured part as Markdown."""
    machine = evidence["machine"]
    parts = [
        f"On one {machine['card']} (driver {machine['driver']}, Python {machine['python']}, torch {machine['torch']}, "
        f"Triton {machine['triton']}), {evidence['date']}; written by `benchmarks/cuda_evidence.py`, numbers in "
        f"[{EVIDENCE.name}](../benchmarks/{EVIDENCE.name}).",
        "Checks on CUDA, several at a time. Kernels of others are compiled anew for nearly every shape; they, and ours "
        "until the next run, were given fewer batches:",
        table(
            ("candidate", "profile", "verdict", "cases", "of these", "required strata", "seconds"),
            (check_row(entry) for entry in evidence["checks"]["entries"]),
        ),
    ]
    notes = [f"- `{e['candidate']}`: {note}" for e in evidence["checks"]["entries"] for note in remarks(e)]
    parts += ["\n".join(notes)] if notes else []
    parts += measured(evidence["checks"]["entries"])
    parts += [
        "Seeded faults that only a GPU can show (those past 2**31 elements by a case that is kept beside them):",
        table(
            ("fault", "caught", "symptom", "search"),
            ((f"`{e['fault']}`", yes(e["caught"]), e["symptom"], e["search"]) for e in evidence["faults"]["entries"]),
        ),
        "Batches in which offsets pass 2**31 elements (line times stride, token times stride):",
        table(
            ("batch", "candidate", "verdict"),
            ((e["case"], f"`{e['candidate']}`", e["verdict"]) for e in evidence["far"]["entries"]),
        ),
        "vLLM's own kernel, launched with the tables of each metadata candidate and with the reference's:",
        table(
            ("tables", "batches", "outputs or cache differ in"),
            ((e["candidate"], e["batches"], e["different"]) for e in evidence["vllm_kernel"]["entries"]),
        ),
        "NVIDIA's compute-sanitizer:",
        table(
            ("tool", "ran", "found"),
            ((e["tool"], " ".join(e["ran"]), " ".join(e["summary"])) for e in evidence["sanitizer"]["entries"]),
        ),
    ]
    return "\n\n".join(parts)


def measured(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The largest distances from float64: one column per candidate that has any."""
    columns = [entry for entry in entries if entry["measures"]]
    labels = sorted({label for entry in columns for label in entry["measures"]})
    rows = [
        (
            label,
            *(f"{number:,.3g}" if (number := entry["measures"].get(label)) is not None else "" for entry in columns),
        )
        for label in labels
    ]
    names = [f"`{entry['candidate'].rpartition('/')[2]}`" for entry in columns]
    text = (
        "Largest distance from a float64 loop, each over the batches of its own profile, so that columns can be "
        "compared only where profiles are the same; empty where no such batch was drawn:"
    )
    return [text, table(("measured", *names), rows)] if columns else []


def yes(fact: bool) -> str:
    """A fact in a table."""
    return "yes" if fact else "**no**"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def check_row(entry: Mapping[str, Any]) -> tuple[object, ...]:
    """One checked candidate."""
    verdict = entry["verdict"] if not entry["symptom"] else f"{entry['verdict']}: {entry['symptom']}"
    searches = ", ".join(f"{count:,} {DID.get(name, name)}" for name, count in entry["searches"].items() if count)
    cases, seconds = f"{entry['cases']:,}", f"{entry['seconds']:,.0f}"
    return f"`{entry['candidate']}`", entry["profile"], verdict, cases, searches, entry["required strata"], seconds


def remarks(entry: Mapping[str, Any]) -> list[str]:
    """What else a reader should know of a checked candidate."""
    return [*entry["notes"], *([entry["reason"]] if entry["reason"] else [])]


if __name__ == "__main__":
    main()
