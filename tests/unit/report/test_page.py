from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from loadtest.report import page
from tests.unit.report.hard_runs import hostile_run, large_run
from tests.unit.report.runs import RUNS, failed_run

VOID = {"meta", "br", "hr", "img", "link", "input"}
PAGES = {**RUNS, "hostile": hostile_run}


class Parsed(HTMLParser):
    """Tags in their nesting, all attributes, all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


@pytest.fixture(params=PAGES)
def parsed(request: pytest.FixtureRequest) -> Parsed:
    return Parsed(page.render(PAGES[request.param]()))


def test_every_tag_is_closed(parsed: Parsed) -> None:
    assert parsed.open == []
    assert parsed.tags["h1"] == 1


def test_nothing_is_fetched_and_nothing_runs(parsed: Parsed) -> None:
    assert parsed.tags["script"] == parsed.tags["link"] == parsed.tags["img"] == parsed.tags["iframe"] == 0
    for tag, name, value in parsed.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("style", "src", "srcset", "action"), (tag, name)
        if name in ("href", "xlink:href"):
            assert value.startswith("#"), (tag, value)
        if name not in ("content", "aria-label"):
            assert "http:" not in value, (tag, name, value)
            assert "https:" not in value, (tag, name, value)


def test_ids_are_unique_and_links_lead_somewhere(parsed: Parsed) -> None:
    ids = [value for _, name, value in parsed.attributes if name == "id"]
    assert not [one for one, number in Counter(ids).items() if number > 1]
    for tag, name, value in parsed.attributes:
        if name == "href":
            assert value[1:] in ids, (tag, value)
        if name == "aria-labelledby":
            assert value in ids
        for target in re.findall(r"url\(#([^)]+)\)", value):
            assert target in ids


def test_whatever_a_server_says_stays_text() -> None:
    text = page.render(hostile_run())
    assert "<script" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    text.encode("utf-8")
    assert r"\x1b[31m" in "".join(Parsed(text).text)


def test_the_page_says_what_the_result_says() -> None:
    words = " ".join("".join(Parsed(page.render(failed_run())).text).split())
    for expected in (
        "55 of 3,000 requests were lost in this rollout",
        "not listening, still sent to for 1.00–1.02 s",
        "What this run cannot know",
        "loadtest run deployment/web --qps 100 -c 10 --timeout 5s",
        "26 to 54",
        "7 of them are echoes",
    ):
        assert expected in words


def test_each_failed_request_has_its_row_and_its_mark() -> None:
    attributes = Parsed(page.render(failed_run())).attributes
    rows = {value for tag, name, value in attributes if tag == "tr" and name == "id"}
    assert len(rows) == 55
    drawn = {value[1:] for tag, name, value in attributes if tag == "a" and name == "href" and value.startswith("#f-")}
    assert drawn <= rows
    assert len(drawn) == 48  # the echoes lie outside the detail, in the overview


def test_every_figure_comes_wide_and_narrow_and_the_narrow_one_is_hidden_without_styles() -> None:
    text = page.render(failed_run())
    wide = len(re.findall(r'<svg[^>]* class="[a-z]+ wide"', text))
    narrow = len(re.findall(r'<div class="nw" hidden><svg[^>]* class="[a-z]+ narrow"', text))
    assert wide == narrow == 3


def test_many_failures_are_thinned_in_words_and_counted_in_full() -> None:
    text = page.render(large_run(5_000))
    assert "2,000 of 5,000 failures are drawn and listed; all are counted, all are in run.db." in text
    assert "3,333 lost." in text
    assert len(text) < 3_000_000


def test_the_same_result_gives_the_same_page() -> None:
    assert page.render(failed_run()) == page.render(failed_run())


PAIRS = [
    ("ink", "bg"),
    ("muted", "bg"),
    ("muted", "sf"),
    ("refused", "bg"),
    ("silent", "bg"),
    ("danger", "bg"),
    ("link", "bg"),
    ("link", "hl"),
    ("refused", "hl"),
    ("onpod", "old"),
    ("onpod", "new"),
    ("ink", "start"),
]


@pytest.mark.parametrize("theme", [0, 1])
def test_text_can_be_read_in_both_themes(theme: int) -> None:
    css = page.context(failed_run())["css"]
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[theme]
    colours = dict(re.findall(r"--(\w+): (#\w+);", block))
    for front, back in PAIRS:
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)


def contrast(front: str, back: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted((luminance(front), luminance(back)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
