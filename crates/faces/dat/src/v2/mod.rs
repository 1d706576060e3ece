//! uDAPL 2.0: the provider that the registry of distributions (`libdat2.so.2`) loads by way of `libdaplnonic.so.2`.

pub mod abi;
pub mod entry_points;
pub mod numbers;
