-- The replica's account in a container's first start. One statement per line.
CREATE USER 'repl'@'%' IDENTIFIED BY 'secret';
GRANT SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'repl'@'%';
