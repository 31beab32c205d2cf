"""pandas: the changes of a table as a DataFrame.

python pandas_frame.py binlog.000024 shop.orders
"""

import sys

import pandas as pd

import replica_client as rc


def frame(source: str, table: str) -> pd.DataFrame:
    batches = rc.open_binlog(source, tables=[table]).batches()
    frames = [batch.to_pandas() for batch in batches]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


if __name__ == "__main__":
    changes = frame(sys.argv[1], sys.argv[2])
    print(changes.groupby("_change_type", observed=True).size())
