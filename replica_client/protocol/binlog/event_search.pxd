from replica_client.protocol.binlog.layout cimport EVENT_SIZE_OFFSET, HEADER_SIZE, TYPE_OFFSET
from replica_client.protocol.codec.memory cimport load_le
