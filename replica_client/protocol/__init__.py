"""Bytes and their meaning: constants, codecs, GTIDs, the client/server protocol and binlog events. No I/O."""
