"""Statements that change what tables are, understood as far as that goes.

No grammar of SQL: of a statement only that is read which can change a table's columns. What is not
understood says so, and names the tables that it may have changed.
"""
