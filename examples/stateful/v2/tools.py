"""The shop's tools, on a database in the agent's own folder."""

import sqlite3
from pathlib import Path

DATABASE = Path("shop.db")


def _connect():
    is_new = not DATABASE.exists()
    connection = sqlite3.connect(DATABASE)
    if is_new:
        connection.executescript(Path("shop.sql").read_text())
    return connection


def get_order(order_id: str) -> str:
    """The status of an order."""
    with _connect() as connection:
        row = connection.execute("SELECT status FROM orders WHERE id = ?", [order_id]).fetchone()
    return row[0] if row else "unknown"


def cancel_order(order_id: str) -> str:
    """Cancel an order."""
    with _connect() as connection:
        changed = connection.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", [order_id])
    return "ok" if changed.rowcount else "unknown"
