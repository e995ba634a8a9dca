"""SVG for documents: one picture for light and dark, and for a phone's width as for a desktop's.

Colours are classes, which a media query changes where the reader's screen is dark; text is large enough that a
picture of WIDTH units can be read on a screen of 390 pixels. Equal data give equal bytes.
"""

import html

WIDTH = 480
STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#1f2328}
.small{font-size:11.5px;fill:#59636e}.head{font-weight:600;font-size:15px}.strong{font-weight:600}
.page{fill:#ffffff}.axis{stroke:#8c959f;stroke-width:1;fill:none}.grid{stroke:#d1d9e0;stroke-width:1}
.ours{fill:#bc4c00}.theirs{fill:#0969da}.ours-line{stroke:#bc4c00;stroke-width:2.5;fill:none}
.theirs-line{stroke:#0969da;stroke-width:2.5;fill:none}.mark{stroke:#1a7f37;stroke-width:1.5;stroke-dasharray:5 3}
.marked{fill:#1a7f37}.b0{fill:#0969da}.b1{fill:#54aeff}.b2{fill:#8250df}.b3{fill:#c297ff}.b4{fill:#1b7c83}
.b5{fill:#3192aa}.block{stroke:#ffffff;stroke-width:.4}.panel{fill:#f6f8fa}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.small{fill:#9198a1}.page{fill:#0d1117}.axis{stroke:#656c76}.grid{stroke:#3d444d}
.ours{fill:#f0883e}.theirs{fill:#58a6ff}.ours-line{stroke:#f0883e}.theirs-line{stroke:#58a6ff}
.mark{stroke:#3fb950}.marked{fill:#3fb950}.b0{fill:#1f6feb}.b1{fill:#388bfd}.b2{fill:#8957e5}.b3{fill:#ab7df8}
.b4{fill:#1b7c83}.b5{fill:#39a5b7}.block{stroke:#0d1117}.panel{fill:#151b23}}
"""
BLOCK_COLOURS = 6


def number(value):
    """At most two digits after the point, none that are zero."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Picture:
    """Elements in the order in which they are drawn; lengths in units of which WIDTH make the picture."""

    def __init__(self, height, title, description, width=WIDTH, style=STYLE):
        self.height, self.width = height, width
        self.parts = [f"<title>{html.escape(title)}</title>", f"<desc>{html.escape(description)}</desc>",
                      f"<style>{style}</style>"]
        self.rectangle(0, 0, width, height, "page")

    def rectangle(self, x, y, width, height, kind):
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
                          f'class="{kind}"/>')

    def line(self, x1, y1, x2, y2, kind="axis"):
        self.parts.append(f'<path d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}" class="{kind}"/>')

    def polyline(self, points, kind):
        self.parts.append(f'<path d="M{"L".join(f"{number(x)} {number(y)}" for x, y in points)}" class="{kind}"/>')

    def circle(self, x, y, radius, kind):
        self.parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{kind}"/>')

    def text(self, x, y, text, kind="", anchor="start"):
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" class="{kind}"{side}>{html.escape(text)}</text>')

    def save(self, path):
        body = "\n".join(self.parts)
        path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                        f'role="img">\n{body}\n</svg>\n', encoding="utf-8")
