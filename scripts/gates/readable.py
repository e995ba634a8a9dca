"""What makes a page hard to read, and the budget of all pages: long sentences, long tables, private words, evidence.

A page begins with its answer: one bold sentence of at most 30 words. Hand-written tables have at most twelve rows. Measured
figures' commits and days belong to results/.
"""

import dataclasses
import re

MOST_LINES, MOST_WORDS = 2800, 17000  # of all pages; words that are written by hand
SENTENCE, ANSWER, ROWS, NOTE_LINES = 35, 30, 12, 40
# Pages that are made from the command's or the library's own texts: their form is not judged, their words are.
MADE = ("docs/commands.md", "docs/variables.md", "docs/statistics.md", "docs/python-api.md", "docs/c-api.md")
FREE_OF_ANSWER = ("README.md", "CHANGELOG.md")  # their first lines have a form of their own
FOREIGN_COMMITS = ("tests/golden/README.md",)  # names other projects' commits, from which files came
GENERATED = re.compile(r"<!-- table:\w+ -->.*?<!-- /table -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HASH = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
# Private word -> what the field says.
WORDS = {"at hand": "reused", "memory nodes?": "NUMA node", "control groups?": "cgroup", "next allocator": "underlying allocator",
         "on trial": "speculative", "quiet point": "point of least memory", "page of status": "status file",
         "stores? of plans": "plan cache", "broken cop(?:y|ies)": "mutation", "anew": "again", "of late": "recently",
         "beside": "next to, compared with", "(?:in|by) turns?": "interleaved, alternately", "as it comes": "by default",
         "g(?:ive|ives|iving|ave|iven) (?:\\w+ )?back": "release", "goes back": "is released", "whoever": "what, a program that",
         "(?:is|are|was|were) told": "is reported", "won": "saved", "large calls?": "large allocation"}
PRIVATE = {re.compile(rf"\b{pattern}\b", re.IGNORECASE): instead for pattern, instead in WORDS.items()}
# Where a word is the name of a thing of the code.
EXEMPT = {"large calls?": ("src/", "tests/", "preload/"), "(?:in|by) turns?": ("bench/", "planner/")}


def blank(match):
    return "\n" * match[0].count("\n")


def by_hand(text):
    """The text without generated parts and code; lines keep their numbers."""
    return CODE.sub(blank, GENERATED.sub(blank, text))


def cells(line):
    return [cell for cell in line.strip().strip("|").split(" | ") if cell.strip()]


def paragraphs(text):
    """(line number, text) of each paragraph, list item and table cell."""
    part, start = [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        ends = not line.strip() or line.startswith(("|", "#", "<!--")) or re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if ends and part:
            yield start, " ".join(part)
            part = []
        if line.startswith("|"):
            yield from ((number, cell) for cell in cells(line) if not re.fullmatch(r"[\s:|-]*", cell))
        elif line.strip() and not line.startswith(("#", "<!--", "![")):
            start = start if part else number
            part.append(line.strip())


def plain(text):
    """A paragraph as it is read: links are their text, code is one word."""
    text = re.sub(r"<!--.*?-->", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", text)
    return re.sub(r"`[^`]*`", "X", text).replace("**", "")


def sentences(text):
    """Sentences of a paragraph; a colon before a list of clauses ends none."""
    return re.split(r"(?<=[.!?])[)\"]?\s+(?=[A-Z0-9X(\"])|(?<=;)\s", plain(text))


def count(text):
    return len(re.findall(r"[^\W_][\w'’.-]*", text))


@dataclasses.dataclass
class Figures:
    """Of all pages."""

    pages: int = 0
    lines: int = 0
    words: int = 0
    long: int = 0
    hashes: int = 0
    dates: int = 0
    private: int = 0

    def over(self):
        found = ((self.lines, MOST_LINES, "lines"), (self.words, MOST_WORDS, "words"))
        return [f"the pages have {have} {what}, at most {most} are allowed" for have, most, what in found if have > most]

    def __str__(self):
        return (f"{self.pages} pages, {self.lines} lines, {self.words} words by hand; {self.long} sentences over {SENTENCE} words, "
                f"{self.hashes} commit hashes, {self.dates} dates, {self.private} private words")


def answer_fault(text):
    """What is wrong with a page's first paragraph, or None."""
    first = next((each for each in re.split(r"\n\s*\n", text) if each.strip() and not each.startswith(("#", "<!--"))), "")
    match = re.match(r"\*\*(.+?)\*\*", " ".join(first.split()))
    if not match:
        return "does not begin with its answer in one bold sentence"
    if count(plain(match[1])) > ANSWER:
        return f"begins with a bold sentence of {count(plain(match[1]))} words, at most {ANSWER}"
    return None


def long_tables(text):
    """(line, rows) of each table that is too long to be written by hand."""
    start, rows = 0, 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("|"):
            start, rows = (start, rows + 1) if rows else (number, 1)
        else:
            if rows - 2 > ROWS:
                yield start, rows - 2
            rows = 0


def evidence(text):
    """(line, what) of each commit hash and date."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, "hash", found) for found in HASH.findall(line))
        yield from ((number, "date", found) for found in DATE.findall(line))


def private_words(name, text):
    """(line, word, what the field says)."""
    for number, line in enumerate(text.splitlines(), 1):
        shown = re.sub(r"`[^`]*`", "", line)
        for pattern, instead in PRIVATE.items():
            exempt = EXEMPT.get(pattern.pattern[2:-2], ())
            if not name.startswith(exempt or ("\0",)):
                yield from ((number, found[0], instead) for found in pattern.finditer(shown))


def faults(name, text, figures):
    """A sentence for each fault of a page, which is added to the figures."""
    hand = "" if name in MADE else by_hand(text)
    figures.pages += 1
    figures.lines += text.count("\n")
    figures.words += count(plain(hand))
    if name not in FREE_OF_ANSWER and (fault := answer_fault(text)):
        yield f" {fault}"
    for number, paragraph in paragraphs(hand):
        for sentence in sentences(paragraph):
            if count(sentence) > SENTENCE:
                figures.long += 1
                yield f"{number}: a sentence of {count(sentence)} words, at most {SENTENCE}: {' '.join(sentence.split()[:8])} ..."
    yield from (f"{number}: a table of {rows} rows by hand, at most {ROWS}; generate it" for number, rows in long_tables(hand))
    for number, kind, found in evidence(CODE.sub(blank, text)):
        if name not in FOREIGN_COMMITS and not (name == "CHANGELOG.md" and kind == "date"):
            figures.hashes += kind == "hash"
            figures.dates += kind == "date"
            yield f"{number}: the {kind} {found} belongs to results/"
    for number, word, instead in private_words(name, CODE.sub(blank, text)):
        figures.private += 1
        yield f"{number}: {word!r} is a private word; the field says: {instead}"


def note_faults(name, text):
    """What is wrong with a note on what was tried."""
    if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name):
        yield "is named NNNN-title.md"
    lines = text.count("\n")
    if lines > NOTE_LINES:
        yield f"has {lines} lines, at most {NOTE_LINES}"
    missing = [part for part in ("Question", "Set-up", "Result", "Decision") if f"**{part}.**" not in text]
    if missing:
        yield f"has no part {', '.join(missing)}"
