//! Service points.

/// A public service point.
#[derive(Debug)]
pub struct PublicServicePoint {}

/// A reserved service point.
#[derive(Debug)]
pub struct ReservedServicePoint {}
