//! Services that programs of this host listen on, by the names that the connection manager gives them.

use nonic_connection::Service;

use super::report::Line;
use crate::holders::{Holder, holders_of_socket};

/// The services that `named` has a name for, with their processes; `heading` says that there are none.
pub(super) fn list(heading: &'static str, named: impl Fn(&Service) -> Option<String>) -> Vec<Line> {
    let all = nonic_connection::services();
    let lines: Vec<_> =
        all.iter().filter_map(|service| Some(Line::ok(named(service)?, owners(service)))).collect();
    if lines.is_empty() {
        return vec![Line::ok(heading, "none: no program of this network namespace listens")];
    }
    lines
}

fn owners(service: &Service) -> String {
    let holders = holders_of_socket(service.inode);
    if holders.is_empty() { owner_of(service) } else { named_with_user(&holders) }
}

/// Whoever this user may not look at, as the kernel says to one who connects.
fn owner_of(service: &Service) -> String {
    service.holder().map_or_else(
        || "of a process that this user may not look at".to_owned(),
        |holder| format!("of {holder}, which this user may not look at"),
    )
}

/// Programs with their processes, and with their users where those are others.
fn named_with_user(holders: &[Holder]) -> String {
    let own = nonic_sys::effective_user();
    let name = |holder: &Holder| match holder.user {
        Some(user) if user != own => format!("{holder} of user {user}"),
        _ => holder.to_string(),
    };
    holders.iter().map(name).collect::<Vec<_>>().join(", ")
}
