"""The documents' Python is executed: what the README shows works.

All ```python blocks of one document run from top to bottom in one namespace, as a reader would type them. They are
written to a real file, each on the line where it stands in the document, because the engine reads the source of user
functions and a traceback should name the document's line.
"""

import re
import sys
import types
from pathlib import Path

import pytest

from engine import Reason
from engine.api.model import Fold

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def python_lines(text: str) -> list[str]:
    """The document line by line, with everything that is not in a ```python block made empty."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line.strip() == "```python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return lines


def test_python_lines_keep_their_place() -> None:
    text = "one\n```python\nx = 1\n```\ntext\n```bash\nls\n```\n```python\ny = x\n```\n"
    assert python_lines(text) == ["", "", "x = 1", "", "", "", "", "", "", "y = x", ""]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = python_lines(document.read_text(encoding="utf-8"))
    if not any(lines):
        pytest.skip("no python blocks")
    module = types.ModuleType("document_" + document.stem.replace("-", "_").lower())
    source = tmp_path / f"{module.__name__}.py"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    module.__file__ = str(source)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), module.__dict__)


def test_readme_has_an_example() -> None:
    assert any(python_lines((ROOT / "README.md").read_text(encoding="utf-8")))


def anchors(text: str) -> set[str]:
    """The places in a document that a link can name: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        place = document.parent / path if path else document
        if not place.exists() or (anchor and anchor not in anchors(place.read_text(encoding="utf-8"))):
            lost.append(target)
    assert lost == []


def test_the_guide_shows_every_form() -> None:
    """Beside every reason and fold, the words by which each form of design.md's section 2 is declared."""
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    code = "\n".join(python_lines(guide))
    told = [f"`{reason.name}`" for reason in Reason]
    assert [name for name in told if name not in guide] == []
    folds = [f'"{fold.name.lower()}"' for fold in Fold if fold is not Fold.USER]
    forms = [
        "txn.read(",
        "txn.write(",
        "txn.delete(",
        "txn.output(",
        "txn.emit(",
        "reads=",
        "each=",
        "when=",
        "when_reads=",
    ]
    forms += [
        "window(",
        "into=",
        ".every(",
        ".computed(",
        "candidates=",
        ".fold(",
        "derive=",
        "filter=",
        "output=",
        "copy=",
    ]
    forms += ["constraint=", "default=", "create=False", "key=str", "key=int", "key=(str, int)", "vector(", "list_of("]
    forms += [
        "event.random",
        "snapshot()",
        "Engine.restore(",
        "engine.read(",
        "Epoch(",
        "DeclarationError",
        "InputError",
    ]
    assert [form for form in [*folds, *forms] if form not in code] == []
