"""Digests of the frozen references: what counts, and what a changed reference leads to."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.contract import Contract
from harness.contracts import all_contracts, contract_named
from harness.errors import HarnessError, UsageError
from harness.frozen import FILE, announce, digest_of, frozen_digests, main, reference_file, verify

SOURCE = '''
"""A module."""

import torch

TILE = 8
"""Tokens."""


def tiles(length: int) -> int:
    """How many tiles."""
    return -(-length // TILE)  # rounded up
'''

# Has what differs between versions of Python: type parameters, empty lists, format specifications, string prefixes,
# patterns, characters that one Unicode knows and another does not.
EVERYTHING = '''
"""doc"""
from __future__ import annotations
from .. import a as b
X: int = 3
"attribute doc"
@deco(1, *args, **kw)
async def f(a, /, b=1, *c, d: "é\\u0378" = None, **e) -> None:
    """doc"""
class A(B, metaclass=M):
    def g(self): return f"{self!r:>{w}} {x=} a" "b" f"c{1}d"
match p:
    case {"k": [1, *r], **z} | None: pass
    case C(a=1) as q if q: x = lambda *, k=1: (yield)
try: pass
except* E as e: raise X from None
with open(a) as f, g: del f[1:2, ...]
z = {**a, "b": 1j, **{1.5e300: b"\\xff"}}, not x, -1 < y <= 2, u"x", [i async for i in j if k], a if b else c, 10**3
for i in x: break
else: continue_ = (w := 3)
'''


@pytest.fixture
def contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Contract]:
    """A contract whose reference lies in a package of its own and has been announced."""
    package = tmp_path / "planted_references"
    package.mkdir()
    (package / "tiles.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    some = next(iter(all_contracts().values()))
    planted = dataclasses.replace(some, name="planted", reference="planted_references.tiles:tiles")
    announce(planted, reason="first version")
    yield planted
    sys.modules.pop("planted_references", None)


def test_formatting_comments_and_docstrings_do_not_count() -> None:
    plain = "import torch\nTILE=8\ndef tiles(length:int)->int:\n  return (-(-length//TILE))\n"
    assert digest_of(plain) == digest_of(SOURCE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("//", "/"),
        ("-(-length", "-(+length"),
        ("= 8", "= 16"),
        ("= 8", "= 8.0"),
        ("length: int", "length: float"),
        ("tiles(", "tile("),
        ("import torch", "import torch as t"),
    ],
)
def test_everything_else_counts(before: str, after: str) -> None:
    assert before in SOURCE
    assert digest_of(SOURCE.replace(before, after)) != digest_of(SOURCE)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x = None", "x = 'None'"),
        ("x = 1", "x = True"),
        ("x = 'a'", "x = b'a'"),
        ("def f(): pass", "async def f(): pass"),
        ("def f():\n 'doc'\n return", "def f():\n return 'doc'"),
        ("f(a=b)", "f(**b)"),
        ("f(a)", "f(*a)"),
        ("if a: b\nelse: c", "if a: c\nelse: b"),
        ("if a: b\nc", "if a:\n b\n c"),
        ("{**a}", "{None: a}"),
        ("def f(a, /): pass", "def f(a): pass"),
        ("def f(*, a, b=1): pass", "def f(*, a=1, b): pass"),
        ("f'{a!r}'", "f'{a!s}'"),
        ("f'{a}'", "f'{a:b}'"),
        ("'a' if b else c", "'a' and b or c"),
    ],
)
def test_sources_that_mean_something_else_have_other_digests(left: str, right: str) -> None:
    assert digest_of(left) != digest_of(right)


def test_the_digest_is_the_same_under_every_python() -> None:
    # Computed under Python 3.11, 3.12 and 3.13. If this fails under another one, mend the code, not the number.
    assert digest_of(EVERYTHING) == "96d219b10bd299ec30ccf05078f8923d5fdf3f75c84386d6cd64fb9c47e7915b"


@pytest.mark.parametrize("name", list(all_contracts()))
def test_every_reference_is_the_announced_one(name: str) -> None:
    assert verify(contract_named(name)) == frozen_digests()[name]


def test_every_announced_digest_belongs_to_a_contract() -> None:
    assert set(frozen_digests()) == set(all_contracts())


def test_a_changed_reference_is_refused_with_the_command_that_announces_it(contract: Contract) -> None:
    verify(contract)
    path = reference_file(contract)
    path.write_text(SOURCE.replace("//", "/"))
    with pytest.raises(HarnessError, match=r"has changed.*harness.frozen announce planted --reason"):
        verify(contract)
    announce(contract, reason="division is what it should have been")
    assert verify(contract) == digest_of(path.read_text())


def test_a_reference_that_was_never_announced_is_refused(contract: Contract) -> None:
    with pytest.raises(HarnessError, match=r"no frozen digest.*announce other"):
        verify(dataclasses.replace(contract, name="other"))


def test_a_reference_that_does_not_exist_is_refused(contract: Contract) -> None:
    for reference in ("planted_references.absent:f", "no_such_package.module:f", "no_such_module:f"):
        with pytest.raises(HarnessError, match="not found"):
            verify(dataclasses.replace(contract, reference=reference))


def test_announcing_writes_digest_date_and_reason_and_keeps_the_other_contracts(contract: Contract) -> None:
    path = announce(dataclasses.replace(contract, name="another"), reason='it said "eight"\n  and \\ meant it')
    entries = tomllib.loads(path.read_text())
    assert list(entries) == ["another", "planted"]
    assert entries["another"]["reason"] == 'it said "eight" and \\ meant it'
    assert entries["planted"]["digest"] == entries["another"]["digest"] == digest_of(SOURCE)


def test_announcing_needs_a_reason(contract: Contract) -> None:
    with pytest.raises(UsageError, match="--reason is empty"):
        announce(contract, reason="  ")


@pytest.mark.parametrize("text", ["not toml", '[planted]\ndigest = "1"\n', "planted = 3\n"])
def test_a_damaged_file_is_refused(contract: Contract, text: str) -> None:
    (reference_file(contract).parent / FILE).write_text(text)
    with pytest.raises(HarnessError, match="Restore the file"):
        verify(contract)


def test_a_missing_file_is_refused(contract: Contract) -> None:
    (reference_file(contract).parent / FILE).unlink()
    with pytest.raises(HarnessError, match=r"no frozen digest in .*frozen\.toml: announce it with"):
        verify(contract)


def test_the_command_names_the_known_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["announce", "no_such_contract", "--reason", "a test"]) == 2
    assert "causal_conv1d_metadata" in capsys.readouterr().err


def test_verifying_does_not_import_the_reference_or_torch() -> None:
    program = (
        "import sys; from harness.contracts import contract_named; from harness.frozen import verify; "
        "verify(contract_named('causal_conv1d_metadata')); "
        "sys.exit('torch' in sys.modules or 'references' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
