"""Reads tables of kvbench with DuckDB, pandas and polars and compares every value.

Usage: readers.py EXPECTED.json

EXPECTED.json names a Parquet file and says what is in it: the schema's name, and
for each column its values as text, null where they are null. Anything that a
reader sees differently is printed, and ends the script with 1.
"""

import json
import sys

import duckdb
import pandas
import polars
import pyarrow.parquet


def text(value):
    """The value as the expectation has it."""
    if value is None or value is pandas.NA or value is pandas.NaT:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if hasattr(value, "tolist") and not isinstance(value, pandas.Timestamp):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [text(v) for v in value]
    return str(value)


def columns_of_duckdb(path):
    # Python has no type with nanoseconds, so DuckDB counts them.
    relation = duckdb.sql(f"SELECT * FROM '{path}'")
    select = ", ".join(
        f'epoch_ns("{n}") AS "{n}"' if "TIMESTAMP" in str(t) else f'"{n}"'
        for n, t in zip(relation.columns, relation.types)
    )
    rows = duckdb.sql(f"SELECT {select} FROM '{path}'").fetchall()
    return {n: [r[i] for r in rows] for i, n in enumerate(relation.columns)}


def columns_of_pandas(path):
    frame = pandas.read_parquet(path, dtype_backend="pyarrow")
    out = {}
    for name in frame.columns:
        values = list(frame[name])
        out[name] = [v.value if isinstance(v, pandas.Timestamp) else v for v in values]
    return out


def columns_of_polars(path):
    frame = polars.read_parquet(path)
    out = {}
    for name in frame.columns:
        series = frame[name]
        if series.dtype.is_temporal():
            series = series.dt.epoch("ns")
        out[name] = series.to_list()
    return out


READERS = {"duckdb": columns_of_duckdb, "pandas": columns_of_pandas, "polars": columns_of_polars}


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        expected = json.load(f)
    path, wrong = expected["path"], 0

    def complain(message):
        nonlocal wrong
        wrong += 1
        if wrong <= 20:
            print(message)

    metadata = pyarrow.parquet.read_metadata(path).metadata
    if metadata.get(b"kvbench.schema") != expected["schema"].encode():
        complain(f"{path}: kvbench.schema is {metadata.get(b'kvbench.schema')}")
    json.loads(metadata[b"kvbench.meta"])

    for reader, read in READERS.items():
        got = read(path)
        if list(got) != list(expected["columns"]):
            complain(f"{reader}: columns {list(got)}")
            continue
        for name, want in expected["columns"].items():
            have = [text(v) for v in got[name]]
            if len(have) != len(want):
                complain(f"{reader}: {name}: {len(have)} rows of {len(want)}")
            for row, (w, h) in enumerate(zip(want, have)):
                if isinstance(w, str) and isinstance(h, str) and w != h:
                    try:  # two ways to write one number
                        if float(w) == float(h) and ("e" in w + h or "." in w + h):
                            continue
                    except ValueError:
                        pass
                if w != h:
                    complain(f"{reader}: {name}, row {row}: {h!r}, want {w!r}")
    print(f"{path}: {len(expected['columns'])} columns, {wrong} differences")
    sys.exit(wrong > 0)


main()
