//! uDAPL.
