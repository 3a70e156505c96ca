CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT NOT NULL, note TEXT);
INSERT INTO orders VALUES ('1001', 'open', NULL), ('1002', 'open', NULL), ('1003', 'shipped', NULL);
