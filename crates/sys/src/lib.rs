//! Every system call nonic makes.
