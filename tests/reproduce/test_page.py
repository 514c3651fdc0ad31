"""The page of all pipelines."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from sparsegp.cli.reproduce import command
from sparsegp.errors import SettingsError
from sparsegp.reproduce import reproduce


class Balanced(HTMLParser):
    """Checks that what is opened is closed, and gathers pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.pictures: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_of_a_pipeline(small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    pipeline = small()
    out = Path("results") / pipeline.stem
    outcome = reproduce(pipeline, out=out)
    result = CliRunner().invoke(command, [str(pipeline), "--report", "page"])
    assert result.exit_code == 0, result.output
    text = Path("page/index.html").read_text(encoding="utf-8")
    reader = Balanced()
    reader.feed(text)
    assert reader.open == []
    assert len(reader.pictures) == len(list(out.glob("*.png"))) > 0
    for picture in reader.pictures:
        assert (tmp_path / "page" / picture).read_bytes().startswith(b"\x89PNG")
    row = next(row for row in outcome.rows if row.published is not None)
    assert f"<td>{row.published.where}</td>" in text
    assert "4 of 4 cells finished" in text
    assert "&lt; 50" in text
    assert not re.search(r"<td>[^<]*< ", text)


def test_nothing_is_run_for_the_page(small, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, [str(small()), "--report", "page"])
    assert result.exit_code == 0, result.output
    assert "0 of 4 cells finished" in Path("page/index.html").read_text(encoding="utf-8")
    assert not list(tmp_path.glob("results/*/cells/*"))


def test_one_folder_is_not_for_two_pipelines(small) -> None:
    result = CliRunner().invoke(command, [str(small()), str(small()), "--out", "x"])
    assert isinstance(result.exception, SettingsError)
