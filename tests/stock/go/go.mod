module windlass.dev/stock

go 1.26
