"""Interfaces of other libraries: python-mysql-replication, asyncmy, dlt, Singer, Polars, DuckDB.

=================================================  ==================================================
:mod:`replica_client.compat.pymysqlreplication`    python-mysql-replication 1.0
:mod:`replica_client.compat.asyncmy`               ``asyncmy.replication`` 0.2
=================================================  ==================================================

Change the import, or leave the program as it is and run it by
``python -m replica_client.compat run program.py`` (:mod:`replica_client.compat.shim`).
"""
