"""A picture of the fan-out benchmark: one bar a server and scenario."""

from xml.sax.saxutils import escape

WIDTH, LABEL, BAR, ROW, HEAD, GAP = 760, 250, 400, 24, 34, 18
OURS, OTHERS = "#3f5bd9", "#b4bac6"
STYLE = "font:13px system-ui,sans-serif;fill:#1c1d22"


def picture(medians: dict[str, dict[str, float]]) -> str:
    """The SVG of the microseconds of CPU a frame, by scenario and server: shorter is better."""
    shapes: list[str] = []
    y = GAP
    for scenario, servers in medians.items():
        shapes.append(f'<text x="0" y="{y + 14}" style="{STYLE};font-weight:600">{escape(scenario)}</text>')
        y += HEAD
        longest = max(servers.values())
        for name, cpu in sorted(servers.items(), key=lambda item: item[1]):
            color = OURS if name.startswith("turnwire") else OTHERS
            length = max(2, round(BAR * cpu / longest))
            shapes.append(
                f'<text x="{LABEL - 10}" y="{y + 14}" text-anchor="end" style="{STYLE}">{escape(name)}</text>'
            )
            shapes.append(f'<rect x="{LABEL}" y="{y + 2}" width="{length}" height="{ROW - 8}" rx="3" fill="{color}"/>')
            shapes.append(f'<text x="{LABEL + length + 8}" y="{y + 14}" style="{STYLE}">{cpu:.1f}</text>')
            y += ROW
        y += GAP
    title = "CPU of the server for each delivered frame, in microseconds"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" role="img" aria-label="{title}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(shapes)}</svg>\n'
    )
