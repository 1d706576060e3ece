//! The connection manager: services by number, requests, replies, private data, timeouts, and the end of peers.
