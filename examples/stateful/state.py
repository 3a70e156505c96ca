"""What a trial left behind: the orders that are cancelled in its own database."""

import sqlite3


def end_state(calls, files):
    if "shop.db" not in files:
        return {"cancelled": []}
    with sqlite3.connect(f"file:{files['shop.db']}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT id FROM orders WHERE status = 'cancelled' ORDER BY id").fetchall()
    return {"cancelled": [row[0] for row in rows]}
