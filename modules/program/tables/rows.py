"""Read some rows of table.parquet."""

import json

import pyarrow.parquet


def main(asked):
    try:
        table = pyarrow.parquet.ParquetFile("table.parquet")
    except Exception as error:
        return {"error": "It is no Parquet file: %s" % error}
    start, stop = asked["from"], asked["from"] + asked["count"]
    rows, seen = [], 0
    for group in range(table.num_row_groups):
        size = table.metadata.row_group(group).num_rows
        if seen + size > start and seen < stop:
            part = table.read_row_group(group)
            rows += part.slice(max(start - seen, 0), min(stop, seen + size) - max(start, seen)).to_pylist()
        seen += size
    schema = table.schema_arrow
    return {
        "totalRows": table.metadata.num_rows,
        "columns": [{"name": field.name, "type": str(field.type)} for field in schema],
        "from": start,
        "rows": [json.loads(json.dumps(row, default=text, allow_nan=True), parse_constant=lambda _: None) for row in rows],
    }


def text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value.isoformat() if hasattr(value, "isoformat") else str(value)


with open("request.json") as request, open("answer.json", "w") as answer:
    json.dump(main(json.load(request)), answer)
