"""Draws a Grafana dashboard from its file, with the answers of a Prometheus.

    draw.py DASHBOARD PROMETHEUS_URL FROM UNTIL PICTURE

FROM and UNTIL are seconds since 1970. Each panel stands where the file says, with the legend, unit and thresholds of
the file. Grafana's variables choose everything.
"""

import io
import json
import re
import sys
from datetime import datetime, timezone
from urllib.parse import urlencode
from urllib.request import urlopen

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {"svg.fonttype": "none", "svg.hashsalt": "dashboard", "font.size": 7, "font.family": "sans-serif"}
)
from matplotlib import pyplot
from matplotlib.dates import DateFormatter
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

STEP = 10  # seconds: two scrapes
COLUMNS, COLUMN, ROW, GAP = 24, 0.6, 0.34, 0.06  # inches
TEXT, FAINT, FRAME, BACK = "#24292e", "#8a8f98", "#d9dce1", "#f4f5f5"
COLOURS = {"green": "#3a9a46", "yellow": "#d9a300", "orange": "#e07b1a", "red": "#d0333f"}


class Prometheus:
    def __init__(self, url, begin, end):
        self.url, self.begin, self.end = url, begin, end

    def ask(self, path, **parameters):
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}") as answer:
            return json.load(answer)["data"]["result"]

    def now(self, target):
        """The series of a query at the end: pairs of labels and a value."""
        found = self.ask("query", query=expression(target), time=self.end)
        return [(series["metric"], float(series["value"][1])) for series in found]

    def over_time(self, target):
        found = self.ask("query_range", query=expression(target), start=self.begin, end=self.end, step=STEP)
        return [(series["metric"], [(float(at), float(value)) for at, value in series["values"]]) for series in found]


def expression(target):
    chosen = target["expr"].replace("$__rate_interval", "30s")
    return re.sub(r"\$(namespace|pool|cloud|job)\b", ".*", chosen)


def legend(target, labels):
    return re.sub(r"{{(\w+)}}", lambda label: labels.get(label[1], ""), target.get("legendFormat") or "") or "value"


def with_unit(value, unit):
    if unit == "s":
        if abs(value) >= 120:
            return f"{value / 60:.3g} min"
        return f"{value * 1000:.3g} ms" if 0 < abs(value) < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    suffix = {"percent": " %", "cpm": " c/m", "reqps": " req/s"}.get(unit, "")
    return f"{value:,.0f}{suffix}" if value >= 1000 else f"{value:.3g}{suffix}"


def unit_of(panel):
    return panel["fieldConfig"]["defaults"].get("unit", "none")


def colour_of(panel, value):
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return COLOURS[reached[-1]]


def draw_stat(axes, panel, prometheus):
    axes.axis("off")
    found = prometheus.now(panel["targets"][0])
    defaults = panel["fieldConfig"]["defaults"]
    shown = with_unit(found[0][1], unit_of(panel)) if found else defaults.get("noValue", "no data")
    colour = colour_of(panel, found[0][1]) if found else FAINT
    axes.text(0.5, 0.4, shown, ha="center", va="center", fontsize=17, color=colour, transform=axes.transAxes)


def draw_bars(axes, panel, prometheus):
    axes.axis("off")
    axes.set(xlim=(0, 130), ylim=(-0.8, 4.2))
    found = prometheus.now(panel["targets"][0])
    for place, (labels, value) in enumerate(sorted(found, key=lambda series: legend(panel["targets"][0], series[0]))):
        y = 3.4 - 1.6 * place
        axes.text(0, y + 0.5, legend(panel["targets"][0], labels), va="bottom")
        axes.barh(y, 100, color=FRAME, height=0.7, align="center", left=0)
        axes.barh(y, value, color=colour_of(panel, value), height=0.7, align="center", left=0)
        axes.text(104, y, with_unit(value, unit_of(panel)), va="center", color=colour_of(panel, value), fontsize=9)


def draw_table(axes, panel, prometheus):
    axes.axis("off")
    names = next(step["options"]["renameByName"] for step in panel["transformations"] if step["id"] == "organize")
    rows, columns = {}, []
    for target in panel["targets"]:
        column = names[f"Value #{target['refId']}"]
        columns.append(column)
        for labels, value in prometheus.now(target):
            rows.setdefault((labels["namespace"], labels["pool"]), {})[column] = f"{value:g}"
    head = ["namespace", "pool", *columns]
    cells = [[*row, *(rows[row].get(column, "") for column in columns)] for row in sorted(rows)]
    table = axes.table([head, *cells], loc="upper center", edges="horizontal", cellLoc="left")
    table.auto_set_font_size(False)
    table.set_fontsize(6)
    table.auto_set_column_width(range(len(head)))
    for cell in table.get_celld().values():
        cell.set_edgecolor(FRAME)


def draw_series(axes, panel, prometheus):
    unit, stepped = unit_of(panel), panel["fieldConfig"]["defaults"].get("custom", {}).get("lineInterpolation")
    lines = 0
    for target in panel["targets"]:
        for labels, values in prometheus.over_time(target):
            times = [datetime.fromtimestamp(at, timezone.utc) for at, _ in values]
            style = {"drawstyle": "steps-post"} if stepped == "stepAfter" else {}
            axes.plot(times, [value for _, value in values], linewidth=0.9, label=legend(target, labels), **style)
            lines += 1
    axes.set_xlim(*(datetime.fromtimestamp(at, timezone.utc) for at in (prometheus.begin, prometheus.end)))
    axes.set_ylim(bottom=0)
    if not lines or axes.get_ylim()[1] <= 0:
        axes.set_ylim(0, 1)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: with_unit(value, unit)))
    axes.tick_params(length=0, colors=FAINT, labelsize=6)
    axes.grid(color=FRAME, linewidth=0.4)
    axes.spines[:].set_visible(False)
    if lines:
        axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.12), ncols=2 if lines > 4 else 1, frameon=False,
                    fontsize=5.5, labelspacing=0.2, handlelength=1, columnspacing=1, borderpad=0)
    else:
        axes.text(0.5, 0.5, "no data", ha="center", va="center", color=FAINT, transform=axes.transAxes)


# What draws a panel, and the room inside its frame, in parts of it: left, bottom, width, height.
KINDS = {
    "stat": (draw_stat, (0.05, 0.05, 0.9, 0.7)),
    "bargauge": (draw_bars, (0.06, 0.06, 0.9, 0.78)),
    "table": (draw_table, (0.02, 0.06, 0.96, 0.8)),
    "timeseries": (draw_series, (0.13, 0.40, 0.83, 0.46)),
}


def rounded(attribute):
    """An attribute of the SVG, with numbers to a tenth of a point: that halves the file."""
    return re.sub(r"(\d+\.\d)\d+", r"\1", attribute[0])


def draw(dashboard, prometheus, picture):
    panels = dashboard["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, height = COLUMNS * COLUMN, rows * ROW
    figure = pyplot.figure(figsize=(width, height), facecolor=BACK)
    for panel in panels:
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        left, bottom = (x * COLUMN + GAP) / width, 1 - ((y + h) * ROW - GAP) / height
        across, up = (w * COLUMN - 2 * GAP) / width, (h * ROW - 2 * GAP) / height
        if panel["type"] == "row":
            figure.text(left, bottom + up / 2, panel["title"], fontsize=10, weight="bold", color=TEXT, va="center")
            continue
        frame = Rectangle((left, bottom), across, up, facecolor="white", edgecolor=FRAME, linewidth=0.6, zorder=-1)
        figure.add_artist(frame)
        title = left + 0.06 / width, bottom + up - 0.07 / height
        figure.text(*title, panel["title"], color=TEXT, va="top", fontsize=7.5)
        draw_panel, (inner_left, inner_bottom, inner_across, inner_up) = KINDS[panel["type"]]
        room = (left + inner_left * across, bottom + inner_bottom * up, inner_across * across, inner_up * up)
        draw_panel(figure.add_axes(room, facecolor="none"), panel, prometheus)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", facecolor=BACK, metadata={"Date": None, "Title": dashboard["title"]})
    with open(picture, "w", encoding="utf-8") as file:
        file.write(re.sub(r'="[^"]*"', rounded, drawn.getvalue()))


if __name__ == "__main__":
    file, url, begin, end, picture = sys.argv[1:]
    with open(file, encoding="utf-8") as read:
        draw(json.load(read), Prometheus(url, int(begin), int(end)), picture)
