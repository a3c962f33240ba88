"""What the documents say is so: numbers, flags, files, code."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli import app
from harness.contract import PROFILES
from harness.contracts import contract_named
from harness.frozen import verify
from harness.load.spec import parse_spec
from harness.search.profile import profile_named

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "benchmarks" / "h200_evidence.json"
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/kernels.md")


def blocks(document: str, language: str) -> list[str]:
    """Fenced blocks of a language."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)


def bitgate_commands() -> Iterator[list[str]]:
    """Every ``bitgate`` command line in the documents."""
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        for line in re.findall(r"(?:^|[`$&] ?)bitgate ([a-z][^`\n#]*)", text, flags=re.MULTILINE):
            yield shlex.split(line.split("&&")[0].replace("...", ""))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if not target.startswith("http")]
    assert [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()] == []


@pytest.mark.parametrize("source", [block for document in DOCUMENTS for block in blocks(document, "python")])
def test_python_examples_compile(source: str) -> None:
    lines = source.splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    compile("\n".join(line[indent:] for line in lines), "example", "exec")


@pytest.mark.parametrize("source", blocks("README.md", "toml"))
def test_configuration_examples_are_toml_with_known_keys(source: str) -> None:
    assert set(tomllib.loads(source)["tool"]["bitgate"]) <= {"candidates", "cases", "contracts", "stubs"}


def test_command_lines_use_verbs_and_flags_that_exist() -> None:
    group: Any = typer.main.get_command(app)
    flags = {
        verb: {option for parameter in command.params for option in parameter.opts}
        for verb, command in group.commands.items()
    }
    seen = list(bitgate_commands())
    assert len(seen) > 5
    for verb, *rest in seen:
        assert verb in flags
        assert {word for word in rest if word.startswith("-")} <= flags[verb] | {"--help"}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_table_of_profiles_is_right(profile: str) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith(f"| `{profile}`"))
    cases = len(contract_named("causal_conv1d_metadata").space(profile))
    assert f"{cases:,} batches" in row
    assert f"{profile_named(profile).minimum_cases:,} cases" in row
    if profile_named(profile).examples < 1_000_000:
        assert f" {profile_named(profile).examples:,} " in row


def test_registered_candidates_named_in_the_documents_exist() -> None:
    text = "".join((ROOT / document).read_text(encoding="utf-8") for document in DOCUMENTS)
    names = set(re.findall(r"causal_conv1d_metadata/[a-z_]+", text))
    assert names
    for name in names:
        assert parse_spec(name, root=ROOT).kind == "registered"


@pytest.mark.parametrize(
    ("contract", "stated", "version"),
    [
        (
            "causal_conv1d_metadata",
            r"(\d+) seeded faults and (\d+) correct variants",
            r"^def ([a-z]\w*)\(query_start_loc",
        ),
        ("causal_conv1d_prefill", r"(\d+) faulty kernels and (\d+) correct ones", r"^def ([a-z]\w*)\(\n    x: torch"),
    ],
)
def test_the_number_of_seeded_faults_is_right(contract: str, stated: str, version: str) -> None:
    found = re.search(stated, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert found is not None
    faults = tomllib.loads((ROOT / f"tests/faults/{contract}/faults.toml").read_text(encoding="utf-8"))
    correct = re.findall(version, (ROOT / f"tests/correct/{contract}.py").read_text(encoding="utf-8"), re.M)
    assert (int(found[1]), int(found[2])) == (len(faults), len(correct))


def test_the_measured_part_of_the_kernels_page_is_what_the_evidence_says() -> None:
    text = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    with_evidence = runpy.run_path(str(ROOT / "benchmarks" / "render_evidence.py"))["with_evidence"]
    assert with_evidence(text, json.loads(EVIDENCE.read_text(encoding="utf-8"))) == text


def test_the_evidence_is_of_the_references_as_they_are_and_of_our_own_candidates() -> None:
    checked = {
        entry["candidate"]: entry for entry in json.loads(EVIDENCE.read_text(encoding="utf-8"))["checks"]["entries"]
    }
    for entry in checked.values():
        assert (entry["verdict"], entry["reference digest"]) == ("equal", verify(contract_named(entry["contract"])))
    kernels = {"tile_of_tokens", "rolling_taps", "programmatic_launch"}
    assert {f"causal_conv1d_prefill/{name}" for name in kernels} <= checked.keys()
