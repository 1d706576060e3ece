//! Whom the folder of `NONIC_MEET` leads to.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use nonic_meeting::{Member, Namespace};

use super::report::Line;

const NAME: &str = "NONIC_MEET";
/// Processes that are named.
const NAMED: usize = 8;

/// What is there; nothing where the setting is not.
pub(super) fn examine() -> Option<Line> {
    let path = std::env::var_os(NAME).filter(|value| !value.is_empty()).map(PathBuf::from)?;
    let own = Namespace::own().ok();
    Some(match nonic_meeting::members(&path) {
        Ok(members) => describe(&path, &members, own, may_write(&path)),
        Err(error) => Line::problem(
            NAME,
            format!(
                "{}: {error}; nobody is met there, and peers elsewhere are reached by the wire",
                path.display()
            ),
            "make the folder, and let the users of all programs that are to meet read and write it",
        ),
    })
}

fn may_write(path: &Path) -> bool {
    use rustix::fs::Access;
    rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK | Access::READ_OK).is_ok()
}

fn describe(path: &Path, members: &[Member], own: Option<Namespace>, is_open: bool) -> Line {
    let (path, here) = (path.display(), |member: &&Member| Some(member.namespace) == own);
    if !is_open {
        return Line::problem(
            NAME,
            format!("{path}: this user may not make folders there, so no process of it is met"),
            "let the users of all programs that are to meet read and write the folder",
        );
    }
    let others: Vec<_> = members.iter().filter(|member| !here(member)).collect();
    let near = members.len() - others.len();
    let mut text = format!("{path}: {near} of this network namespace, ");
    if others.is_empty() {
        text.push_str("nobody of another");
    } else {
        let _ = write!(text, "{} of others: ", others.len());
    }
    for (index, member) in others.iter().take(NAMED).enumerate() {
        let comma = if index > 0 { "; " } else { "" };
        let _ = write!(
            text,
            "{comma}process {} of user {} at {}",
            member.process,
            member.user,
            addresses(member)
        );
    }
    if others.len() > NAMED {
        let _ = write!(text, "; {} more", others.len() - NAMED);
    }
    Line::ok(NAME, text)
}

/// The addresses of IP among its GIDs.
fn addresses(member: &Member) -> String {
    let address = |gid: &[u8; 16]| Ipv6Addr::from(*gid).to_canonical();
    let is_routable = |address: &IpAddr| !matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    let found: Vec<_> =
        member.gids.iter().map(address).filter(is_routable).map(|ip| ip.to_string()).collect();
    if found.is_empty() { "its own GID only".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(namespace: u64, gids: &[[u8; 16]]) -> Member {
        Member { token: 1, user: 1000, process: 77, namespace: Namespace(namespace), gids: gids.into() }
    }

    #[test]
    fn those_of_other_namespaces_are_named_with_their_addresses_and_a_closed_folder_is_a_problem() {
        let four: [u8; 16] = "::ffff:10.0.0.7".parse::<Ipv6Addr>().unwrap().octets();
        let own: [u8; 16] = "fe80::1".parse::<Ipv6Addr>().unwrap().octets();
        let shown = |members: &[Member], is_open| {
            format!("{:?}", describe(Path::new("/meet"), members, Some(Namespace(1)), is_open))
        };
        let text = shown(&[member(1, &[four]), member(2, &[own, four]), member(3, &[own])], true);
        assert!(text.contains("/meet: 1 of this network namespace, 2 of others: "), "{text}");
        assert!(
            text.contains("process 77 of user 1000 at 10.0.0.7; process 77 of user 1000 at its own GID only"),
            "{text}"
        );
        assert!(shown(&[], true).contains("0 of this network namespace, nobody of another"));
        let closed = shown(&[], false);
        assert!(closed.contains("Problem") && closed.contains("may not make folders"), "{closed}");
    }
}
