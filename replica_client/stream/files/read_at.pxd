from replica_client.protocol.codec.turns cimport Turn
