"""A parser of the statements that change tables.

It is not a full SQL grammar: it reads only the parts that can change a table's columns. For a
statement that it does not understand, it returns the reason and the tables that may have changed.
"""
