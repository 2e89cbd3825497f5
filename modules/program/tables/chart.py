"""Draw a chart of table.parquet, as an image and as a Vega-Lite
specification."""

import json
import math

import matplotlib
import pandas
from matplotlib.figure import Figure

# More points than these tell nobody anything.
MAX_POINTS = 5000
MAX_CATEGORIES = 200


class Refused(Exception):
    pass


def main(asked):
    try:
        table = pandas.read_parquet("table.parquet")
    except Exception as error:
        raise Refused("It is no Parquet file: %s" % error) from None
    kind, x, series = asked["chart_type"], asked["x_field"], asked["series"]
    check(table, kind, x, series)
    columns = [table[s["y_field"]].astype(float) for s in series]
    names = [s["name"] or s["y_field"] for s in series]
    if len(set(names)) < len(names):
        raise Refused("Two series have the same name.")
    title = asked["title"] or asked["logical_name"]
    labels = asked["x_label"] or x, asked["y_label"] or (names[0] if len(names) == 1 else "")
    draw(kind, table[x], columns, names, title, labels, asked["note"])
    with open("chart.vl.json", "w") as file:
        json.dump(vega(kind, table[x], columns, names, title, labels, asked["note"]), file, ensure_ascii=False, indent=1)
    return {"points": sum(int(column.notna().sum()) for column in columns)}


def check(table, kind, x, series):
    for field in [x] + [s["y_field"] for s in series]:
        if field not in table.columns:
            raise Refused("There is no column %r; the columns are: %s." % (field, ", ".join(map(str, table.columns))))
    for s in series:
        column = table[s["y_field"]]
        if not pandas.api.types.is_numeric_dtype(column) or pandas.api.types.is_bool_dtype(column):
            raise Refused("Column %r is not numeric, so that it cannot be a y_field." % s["y_field"])
    if len(table) == 0:
        raise Refused("The table has no rows.")
    if len(table) * len(series) > MAX_POINTS:
        raise Refused("%d points are too many; at most %d. Aggregate the table first and leave the result as a file." % (len(table) * len(series), MAX_POINTS))
    if kind not in ("line", "scatter") and len(table) > MAX_CATEGORIES:
        raise Refused("%d bars are too many; at most %d. Aggregate the table first and leave the result as a file." % (len(table), MAX_CATEGORIES))


def continuous(kind, values):
    """Whether the x axis is a scale and not a list of categories."""
    numeric = pandas.api.types.is_numeric_dtype(values) and not pandas.api.types.is_bool_dtype(values)
    return kind in ("line", "scatter") and (numeric or temporal(values))


def temporal(values):
    if pandas.api.types.is_datetime64_any_dtype(values):
        return True
    kept = values.dropna()
    return len(kept) > 0 and all(hasattr(value, "isoformat") for value in kept)


def word(value):
    if pandas.isna(value):
        return "-"
    if hasattr(value, "isoformat"):
        return value.isoformat().removesuffix("T00:00:00")
    return "%g" % value if isinstance(value, float) else str(value)


def draw(kind, values, columns, names, title, labels, note):
    matplotlib.rcParams["text.parse_math"] = False  # a $ is a dollar
    figure = Figure(figsize=(9, max(5, len(values) * 0.22) if kind == "bar" else 5), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    if continuous(kind, values):
        x = pandas.to_datetime(values) if temporal(values) else values.astype(float)
    else:
        x = range(len(values))
    width = 0.8 / len(columns)
    below = pandas.Series(0.0, index=columns[0].index)
    for n, (column, name) in enumerate(zip(columns, names)):
        if kind == "line":
            axes.plot(x, column, marker="o" if len(values) <= 60 else None, markersize=4, label=name)
        elif kind == "scatter":
            axes.scatter(x, column, s=18, label=name)
        elif kind == "stacked_column":
            axes.bar(x, column.fillna(0), 0.8, bottom=below, label=name)
            below = below + column.fillna(0)
        else:
            places = [place + (n - (len(columns) - 1) / 2) * width for place in x]
            (axes.barh if kind == "bar" else axes.bar)(places, column.fillna(0), width, label=name)
    if not continuous(kind, values):
        words = [word(value) for value in values]
        if kind == "bar":
            axes.set_yticks(list(x), words)
            axes.invert_yaxis()
        else:
            every = math.ceil(len(words) / 40)
            axes.set_xticks(list(x)[::every], words[::every], rotation=45 if sum(map(len, words)) > 60 else 0, ha="right" if sum(map(len, words)) > 60 else "center")
    horizontal, vertical = labels if kind != "bar" else labels[::-1]
    axes.set_xlabel(horizontal)
    axes.set_ylabel(vertical)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title)
    if len(columns) > 1:
        axes.legend()
    if note:
        figure.supxlabel(note, fontsize=8, color="#555555")
    figure.savefig("chart.png")


def plain(value):
    if pandas.isna(value):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else value


def vega(kind, values, columns, names, title, labels, note):
    rows = [
        {"x": plain(x), "series": name, "y": None if math.isnan(y) else y}
        for column, name in zip(columns, names)
        for x, y in zip(values, column)
    ]
    scale = "nominal"
    if continuous(kind, values):
        scale = "temporal" if temporal(values) else "quantitative"
    x = {"field": "x", "type": scale, "title": labels[0]}
    y = {"field": "y", "type": "quantitative", "title": labels[1]}
    if scale == "nominal":
        x["sort"] = None
    encoding = {"x": x, "y": y}
    if kind == "bar":
        encoding = {"y": x, "x": y}
    if len(names) > 1:
        encoding["color"] = {"field": "series", "type": "nominal", "title": None, "sort": None}
        if kind in ("bar", "column"):
            y["stack"] = None
            encoding["yOffset" if kind == "bar" else "xOffset"] = {"field": "series", "sort": None}
    encoding["tooltip"] = [{"field": field} for field in ("x", "series", "y")]
    mark = {"line": {"type": "line", "point": True}, "scatter": {"type": "point", "filled": True}}.get(kind, {"type": "bar"})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        **({"title": {"text": title, **({"subtitle": note} if note else {})}} if title or note else {}),
        "width": 640,
        "height": {"step": 18} if kind == "bar" else 360,
        "data": {"values": rows},
        "mark": mark,
        "encoding": encoding,
    }


with open("request.json") as request:
    asked = json.load(request)
try:
    answer = main(asked)
except Refused as refused:
    answer = {"error": str(refused)}
with open("answer.json", "w") as file:
    json.dump(answer, file)
