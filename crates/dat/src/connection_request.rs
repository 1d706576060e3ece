//! Connection requests.

/// A request to connect.
#[derive(Debug)]
pub struct ConnectionRequest {}
