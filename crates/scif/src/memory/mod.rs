//! The registered address space of an endpoint, and what the peer does with it.
