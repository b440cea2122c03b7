"""The page of HTML: it needs nothing from outside, has the whole model, and its script runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ortable
from ortable.ir.pictures.draw import Look, rendered
from tests.ir.pictures.models import MODELS, TIMES, chain, nodes_of, stack
from tests.ir.pictures.test_dot import HOSTILE, hostile

BROWSER = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), None)


def page(model, **look) -> str:
    return rendered(model, "html", Look(**look)).decode()


def data_of(text: str):
    (found,) = re.findall(r"<script>const data = (.*);</script>", text)
    return json.loads(found)


def items(group):
    for item in group["i"]:
        yield item
        if "i" in item:
            yield from items(item)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("model", [*MODELS, hostile])
def test_the_page_has_the_whole_model_and_needs_nothing_else(model) -> None:
    text = page(model())
    parser = _Tags()
    parser.feed(text)
    assert [tag for tag, _ in parser.tags].count("script") == 3
    assert not [tag for tag, _ in parser.tags if tag in ("link", "img", "iframe", "object")]
    for _, attributes in parser.tags:
        assert not {"src", "href"} & attributes.keys()
    assert not re.search(r"\bimport\s*\(|@import|url\(\s*[\"']?http|fetch\(|XMLHttpRequest", text)
    data = data_of(text)
    found = list(items(data["root"]))
    nodes = [item for item in found if item.get("r") == 0]
    assert len(nodes) == nodes_of(model()) == data["nodes"]
    keys = {item["k"] for item in found}
    assert len(keys) == len(found)
    assert all(source in keys and target in keys for source, target, *_ in data["edges"])
    assert set(data["open"]) <= keys | {data["root"]["k"]}


def test_large_models_are_closed_at_first_and_one_module_can_be_asked_for() -> None:
    data = data_of(page(chain(3000, lambda i: f"/a.{i // 300}/b.{i // 30}/op")))
    assert data["modules"] == 110
    opened = set(data["open"])
    shown = [item for group in [data["root"], *items(data["root"])] if group["k"] in opened
             for item in group["i"] if item["k"] not in opened]  # fmt: skip
    assert 1 < len(shown) <= 24
    part = data_of(page(stack(), module="layers.2", fold=False, weights=False))
    assert part["root"]["t"] == "layers.2" and part["root"]["c"] == "Block"
    assert part["weights"] is False and part["attributes"] is True


def test_no_name_ends_the_script() -> None:
    text = page(hostile())
    assert text.count("</script>") == 3
    titles = [item["t"] for item in items(data_of(text)["root"])]
    assert f"x{HOSTILE}" in titles
    assert "<i>" not in text.partition("<script>")[0]


def run(file: Path, fragment: str = "") -> str:
    """What the page is after its script has run."""
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000",
         "--window-size=1200,800", f"--user-data-dir={file.parent / 'profile'}", "--dump-dom",
         f"file://{file}{fragment}"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_the_script_runs(tmp_path: Path) -> None:
    ortable.draw(stack(), tmp_path / "page.html", depth=0)
    drawn = run(tmp_path / "page.html")
    assert 'data-ready="yes"' in drawn
    assert f"layers.0 … layers.11  {TIMES} 12" in drawn and "LayerNormalization</text>" not in drawn
    opened = run(tmp_path / "page.html", "#layers.0.norm")
    assert "LayerNormalization</text>" in opened and 'class="chosen"' in opened
    assert "NaN" not in opened.partition("<script>")[0]
    everything = run(tmp_path / "page.html", "#all")
    assert everything.count("Tanh</text>") == 1  # the other blocks are counted


USER = """<script>
const seen = [], count = kind => scene.querySelectorAll(kind).length;
const on = (element, kind, more) => element.dispatchEvent(
  new (kind.startsWith("pointer") ? PointerEvent : Event)(kind, { bubbles: true, ...more }));
const click = element => { on(element, "pointerdown"); on(element, "pointerup"); };
seen.push(count(".closed"), count(".open"));
click(scene.querySelector(".closed text"));
seen.push(count(".closed"), count(".open"));
click(scene.querySelector(".head text"));
seen.push(count(".closed"), count(".open"));
search.value = "layers.7.fc.bias"; on(search, "input");
seen.push(results.children.length);
results.firstChild.click();
seen.push(count(".chosen"), details.textContent.includes("layers.7.fc.bias"));
const before = scene.getAttribute("transform");
document.getElementById("in").click();
seen.push(before !== scene.getAttribute("transform"));
document.getElementById("weights").click();
seen.push(count("text.weight"));
document.body.dataset.seen = JSON.stringify(seen);
</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_a_click_opens_and_closes_and_search_finds(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    ortable.draw(stack(), file, depth=0)
    file.write_text(file.read_text().replace("</body>", USER))
    (seen,) = re.findall(r'data-seen="([^"]*)"', run(file))
    assert json.loads(seen) == [2, 0, 3, 1, 2, 0, 1, 1, True, True, 0]


@pytest.mark.skipif(BROWSER is None, reason="needs a browser")
def test_hostile_names_are_text_in_the_browser(tmp_path: Path) -> None:
    ortable.draw(hostile(), tmp_path / "page.html")
    drawn = run(tmp_path / "page.html", "#all").partition("<script>")[0]
    assert 'data-ready="yes"' in drawn and "<i>" not in drawn
    assert "a\"b&lt;i&gt;&amp;c\\d'e" in drawn
