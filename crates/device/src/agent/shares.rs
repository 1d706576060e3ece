//! How many connections each user may have with this process, and whose goes when there are more: never the newest.

use std::collections::HashMap;

use nonic_sys::{Shares, descriptor_limit};

/// More descriptors than these are never counted on: what strangers have costs memory, too.
const DESCRIPTORS_MAX: usize = 4096;
/// Connections of the own user that may wait for their introduction.
const OWN_NEWCOMERS: usize = 256;
/// Descriptors of a link to a stranger: its socket, its process, and what is shown to it until it has read that.
const DESCRIPTORS_PER_LINK: usize = 3;

/// What the process's limits allow at this moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections that have not introduced themselves.
    pub(super) newcomers: Shares,
    /// Links that nobody here talks with.
    pub(super) links: Shares,
    /// The first number of a descriptor that is kept free of foreigners.
    pub(super) reserved_from: usize,
}

impl Limits {
    pub(super) fn now() -> Self {
        Self::of(descriptor_limit())
    }

    /// A quarter of the descriptors is the foreigners', a quarter of that for newcomers.
    fn of(limit: usize) -> Self {
        let shares = Shares::of_limit(limit.min(DESCRIPTORS_MAX));
        let part = |own: usize, part: usize, of: usize| Shares {
            own,
            stranger: (shares.stranger * part / of).max(1),
            strangers: (shares.strangers * part / of).max(1),
        };
        Self {
            newcomers: part(OWN_NEWCOMERS, 1, 4),
            links: part((limit / 2).max(1), 3, 4 * DESCRIPTORS_PER_LINK),
            reserved_from: limit - limit / 4,
        }
    }
}

/// A connection as far as it matters whether it stays.
#[derive(Clone, Debug)]
pub(super) struct Held<T> {
    pub(super) user: u32,
    /// When its peer last said something; the least has been silent for longest.
    pub(super) heard: u64,
    pub(super) which: T,
}

/// The connection that has to go because there are more than `shares` allow: of the user that has more than its share, or has
/// most, the one that has been silent for longest.
pub(super) fn surplus<T: Clone>(held: &[Held<T>], own: Option<u32>, shares: Shares) -> Option<T> {
    let mut by_user: HashMap<u32, usize> = HashMap::new();
    for held in held {
        *by_user.entry(held.user).or_default() += 1;
    }
    let is_own = |user: u32| own == Some(user);
    let strangers: usize = by_user.iter().filter(|(user, _)| !is_own(**user)).map(|(_, count)| count).sum();
    let beyond =
        |(user, count): &(&u32, &usize)| **count > if is_own(**user) { shares.own } else { shares.stranger };
    let (user, _) = by_user.iter().find(beyond).or_else(|| {
        let others = by_user.iter().filter(|(user, _)| !is_own(**user));
        others.max_by_key(|(_, count)| **count).filter(|_| strangers > shares.strangers)
    })?;
    most_silent(held, |held| held.user == *user)
}

/// The connection that has been silent for longest, of those that `may_go`.
pub(super) fn most_silent<T: Clone>(held: &[Held<T>], may_go: impl Fn(&Held<T>) -> bool) -> Option<T> {
    held.iter().filter(|held| may_go(held)).min_by_key(|held| held.heard).map(|held| held.which.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Option<u32> = Some(1000);
    const SHARES: Shares = Shares { own: 4, stranger: 3, strangers: 5 };

    /// So many connections of each user, in the order of their age.
    fn held(users: &[(u32, usize)]) -> Vec<Held<usize>> {
        let users = users.iter().flat_map(|(user, count)| std::iter::repeat_n(*user, *count));
        users.enumerate().map(|(i, user)| Held { user, heard: i as u64, which: i }).collect()
    }

    #[test]
    fn nobody_goes_as_long_as_all_are_within_their_shares() {
        assert_eq!(surplus(&held(&[]), OWN, SHARES), None);
        assert_eq!(surplus(&held(&[(1, 3), (2, 2), (1000, 4)]), OWN, SHARES), None);
    }

    #[test]
    fn of_a_user_beyond_its_share_the_most_silent_goes() {
        assert_eq!(surplus(&held(&[(2, 1), (1, 4)]), OWN, SHARES), Some(1));
        let mut held = held(&[(2, 1), (1, 4)]);
        held[1].heard = 9;
        assert_eq!(surplus(&held, OWN, SHARES), Some(2));
    }

    #[test]
    fn of_all_strangers_beyond_their_share_the_most_silent_of_the_greediest_goes_and_never_an_own_one() {
        assert_eq!(surplus(&held(&[(1000, 4), (3, 1), (1, 2), (2, 3)]), OWN, SHARES), Some(7));
        let many: Vec<_> = (1..=6).map(|user| (user, 1)).collect();
        assert!(surplus(&held(&many), OWN, SHARES).is_some());
        assert_eq!(surplus(&held(&many[..5]), OWN, SHARES), None);
    }

    #[test]
    fn the_own_user_is_bounded_too_and_a_stranger_where_it_is_not_certain() {
        assert_eq!(surplus(&held(&[(1000, 5)]), OWN, SHARES), Some(0));
        assert_eq!(surplus(&held(&[(1000, 4)]), None, SHARES), Some(0));
    }

    #[test]
    fn limits_leave_the_process_three_quarters_of_its_descriptors() {
        for limit in [16, 64, 1024, 4096, 1 << 20, usize::MAX] {
            let Limits { newcomers, links, reserved_from } = Limits::of(limit);
            let strangers = newcomers.strangers + DESCRIPTORS_PER_LINK * links.strangers;
            assert!(strangers <= limit.min(DESCRIPTORS_MAX) / 4, "{limit}: {strangers}");
            assert!(reserved_from <= limit && newcomers.stranger <= newcomers.strangers);
            assert!(links.stranger >= 1 && links.stranger <= links.strangers);
        }
        let usual = Limits::of(1024);
        assert_eq!((usual.newcomers.strangers, usual.newcomers.stranger), (64, 32));
        assert_eq!((usual.links.strangers, usual.links.stranger, usual.reserved_from), (64, 32, 768));
    }
}
