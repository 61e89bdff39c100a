#!/bin/sh
# pyarrow 26.0.1: its CSV reader takes whole numbers above 2^63 - 1 for floating point, in silence, so that
# neighbouring ids (hashes of 64 bits, for instance) become one; pandas 3.1.1 keeps them.
# Seen: 9223372036854775809 and 9223372036854775810 are both read as 9.223372036854776e+18.
exec "$(dirname "$0")/with" pyarrow==26.0.1 pandas==3.1.1 <<'PYTHON'
import io

import pandas
import pyarrow.csv

text = b"source,target\n9223372036854775809,9223372036854775810\n"
arrow = pyarrow.csv.read_csv(io.BytesIO(text))
row = [arrow[name][0].as_py() for name in ("source", "target")]
other = pandas.read_csv(io.BytesIO(text)).values.tolist()[0]
print(f"pyarrow: {arrow.schema.types}, {row}; pandas: {other}")
assert row[0] == row[1] and isinstance(row[0], float)
assert other == [9223372036854775809, 9223372036854775810]
PYTHON
