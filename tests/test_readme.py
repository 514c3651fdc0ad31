"""What the pages of the documentation tell to type works, and prints what they show.

Every fenced block is one of: commands (`sh`), what the last command printed (`text`), or Python.
Commands of the program are run in order in one folder, those that need a cluster or large data are
parsed only; a block or a command of any other kind fails.
"""

import contextlib
import io
import re
import shlex
import subprocess
import tomllib
from itertools import chain, dropwhile
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from click.testing import CliRunner

from sparsegp.cli.program import program
from tests.processes import ROOT, run_python

pytestmark = [
    pytest.mark.skipif(
        not (ROOT / "README.md").exists(), reason="an installed package has no README"
    ),
    pytest.mark.usefixtures("searching"),
]

CONTRIBUTING = "CONTRIBUTING.md"
PAGES = [
    *(CONTRIBUTING, "README.md", "cluster/README.md"),
    *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md")),
]
RUN = [
    pytest.param(name, marks=() if name == "README.md" else pytest.mark.slow)
    for name in PAGES
    if name != CONTRIBUTING
]
BEGUN_ELSEWHERE = {"dask", "pip", "python", "sbatch", "sh"}
ASSIGNMENT = re.compile("[A-Z_]+=")
NEEDS = ("--scheduler", "--scheduler-file", "--cluster", "--data")
"""Options of commands that can only be parsed here."""


def fences(path):
    """Yield the language, the text and the first line of every fenced block."""
    text = path.read_text(encoding="utf-8")
    marks = re.findall("^( *)```", text, re.M)
    assert not any(marks), f"a block of {path.name} is indented"
    assert len(marks) % 2 == 0, f"a block of {path.name} is never closed"
    for found in re.finditer(r"^```(.*)\n((?s:.*?))^```", text, re.M):
        yield *found.groups(), text.count("\n", 0, found.start(2)) + 1


def commands(text):
    parts = [part for line in text.splitlines() for part in line.split("&&")]
    split = (dropwhile(ASSIGNMENT.match, shlex.split(part, comments=True)) for part in parts)
    return [words for each in split if (words := [*each])]


def shape(line):
    """Return a line with its numbers and its white space made equal."""
    line = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line.replace("\u2026", ""))
    line = re.sub(r"\b([kMG]B|bytes)\b", "B", line)
    return " ".join(line.split())


def nlpps(line):
    return [float(number) for number in re.findall(r"nlpp +(\d+\.\d+)", line)]


def assert_printed(shown, printed, where):
    """Check that every line shown was printed, with NLPPs within 3 % and any other numbers."""
    lines = [(shape(line), nlpps(line)) for line in printed.splitlines()]
    for line in shown.splitlines():
        if line.strip() == "...":
            continue
        start, stated, is_whole = shape(line.removesuffix("...")), nlpps(line), line[-3:] != "..."
        found = any(
            (full == start if is_whole else full.startswith(start))
            and stated == pytest.approx(found[: len(stated)], rel=0.03)
            for full, found in lines
        )
        assert found, f"{where} shows {line!r}; printed:\n{printed}"


def parse_only(words):
    """Check that a command of the program has such options and arguments."""
    assert words[1] in program.commands, words
    program.commands[words[1]].make_context(words[1], words[2:])


def can_run(words):
    return not any(word in NEEDS or "://" in word for word in words)


def check_other(words):
    """Check a command that is not run: its files and extras are there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if words[0] == "pip":
        match = re.fullmatch(r"\.(?:\[([\w,]+)\])?", words[-1])
        assert words[1] == "install", words
        assert match, words
        assert {*(match[1] or "test").split(",")} <= {*project["optional-dependencies"]}
    elif words[:2] == ["python", "-c"]:
        run_python(*words[1:])
    elif words[0] == "python":
        assert words[1:3] in (["-m", "pytest"], ["-m", "pipelines"])
        assert all((ROOT / word).exists() for word in words[3:4] if word.endswith(".toml"))
        assert all((ROOT / word).exists() for word in words[3:] if word.startswith("tests/"))
    elif words[0] == "sbatch":
        assert (ROOT / words[1]).exists(), words
        parse_only(["sparsegp", "train", "mine.npz", *words[2:]])
    elif words[0] == "sh":
        subprocess.run(["sh", ROOT / words[1], *words[2:]], check=True)
    else:
        from distributed.cli import dask_scheduler, dask_worker  # noqa: PLC0415

        known = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}
        known[words[1]].make_context(words[1], words[2:])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the commands speak of, and the folder where they run."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=90)
    X = rng.standard_normal((3, 4))[y] * 3.0 + rng.standard_normal((90, 4))
    table = np.column_stack([y, X])
    np.savetxt(tmp_path / "mine.csv", table[:60], delimiter=",", fmt="%.6g")
    np.savetxt(tmp_path / "new.csv", table[60:], delimiter=",", fmt="%.6g")
    (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed_by(text, where):
    """Run the commands of a block, and return what the program printed."""
    printed = ""
    for words in commands(text):
        if words[0] != "sparsegp":
            assert words[0] in BEGUN_ELSEWHERE, f"{where}: {words}"
            check_other(words)
        elif not can_run(words):
            parse_only(words)
        else:
            result = CliRunner().invoke(program, words[1:])
            assert result.exit_code == 0, f"{where}: {words}: {result.output}"
            printed += result.stdout
            if "--out" in words and words[words.index("--out") + 1].endswith(".csv"):
                printed += Path(words[words.index("--out") + 1]).read_text()
    return printed


def printed_by_python(text, where, line, names):
    """Run a block of Python, and return what it printed; a comment after a print is its line."""
    code = compile("\n" * (line - 1) + text, where, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, names)
    for said in re.findall(r"print\(.*\)  # (.*)", text):
        assert re.match(r"[a-z]", said) or said in out.getvalue().splitlines(), said
    return out.getvalue()


@pytest.mark.parametrize("name", RUN)
def test_examples(name, folder):
    """All blocks of a page, one after the other; its Python in one namespace."""
    printed, names = "", {"__name__": "__main__"}
    for language, text, line in fences(ROOT / name):
        where = f"{name}:{line}"
        if language == "text":
            assert_printed(text, printed, where)
        elif language == "python":
            printed = printed_by_python(text, name, line, names)
        elif language == "sh":
            printed = printed_by(text, where)
        else:  # tests/runtime/test_clusters.py, Sphinx
            known = language == "yaml" or language.startswith("{")
            assert known, f"{where}: a block of kind {language!r}"


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("cluster/*/")))
def test_commands_of_the_ready_folders(name):
    """Those of this program have such options, and the files that they name are there."""
    blocks = fences(ROOT / "cluster" / name / "README.md")
    every = [words for kind, text, _ in blocks if kind == "sh" for words in commands(text)]
    own = [words for words in every if words[0] == "sparsegp"]
    assert own
    for words in own:
        parse_only(words)
    for word in chain.from_iterable(every):
        assert not word.startswith("cluster/") or (ROOT / word).is_file(), word


def test_contributing():
    """In a process of its own, for the examples add to the registries."""
    blocks = fences(ROOT / CONTRIBUTING)
    run_python("-c", "\n".join(text for language, text, _ in blocks if language == "python"))


@pytest.mark.parametrize("name", PAGES)
def test_links_and_folders(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert ((ROOT / name).parent / link).exists(), link
    for folder in re.findall(r"^\| `((?:sparsegp|pipelines|cluster|tests)[\w/]*)` \|", text, re.M):
        assert (ROOT / folder).is_dir(), folder


def test_table_of_the_readme_is_that_of_the_results():
    """If not, `python docs/results.py` makes it anew."""
    results = run_path(str(ROOT / "docs/results.py"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n| ") > 10
    assert results["with_table"](text) == text


def test_every_folder_is_described():
    text = (ROOT / "docs/explanation/code.md").read_text(encoding="utf-8")
    for folder in sorted(path.parent.name for path in (ROOT / "sparsegp").glob("*/__init__.py")):
        assert f"| `sparsegp/{folder}` |" in text, folder


def test_every_option_that_a_page_names_exists():
    """Also those in running text and tables."""
    known = {"--help", "--requeue", "--nthreads", "--memory-limit", "--nworkers", "--version"}
    for parameter in chain(*(command.params for command in program.commands.values())):
        known |= {*parameter.opts, *parameter.secondary_opts}
    for name in PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        assert set(re.findall(r"`(--[a-z-]+)", prose)) <= known
