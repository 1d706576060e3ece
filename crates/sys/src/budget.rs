//! What a process spends on others, bounded for each user: one who takes all that strangers may have takes nothing of what the
//! process's own user needs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much of something may be spent, in whatever it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// On processes of the own user.
    pub own: usize,
    /// On all those of one other user.
    pub stranger: usize,
    /// On those of all other users together. What the own user may have is not part of it.
    pub strangers: usize,
}

impl Shares {
    /// Of a limit: the own user may have all of it, all others a quarter, each of them an eighth. Each has at least one of
    /// whatever there is.
    pub fn of_limit(limit: usize) -> Self {
        Self { own: limit, stranger: (limit / 8).max(1), strangers: (limit / 4).max(1) }
    }
}

/// What is spent on whom.
#[derive(Debug)]
pub struct Budget {
    own: Option<u32>,
    shares: Shares,
    spent: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// Users on whom nothing is spent have no place in it.
    by_user: HashMap<u32, usize>,
    strangers: usize,
}

/// Something that was spent on a user. Dropped, it is given back.
#[derive(Debug)]
#[must_use = "what is dropped is given back"]
pub struct Share {
    budget: Arc<Budget>,
    user: u32,
    amount: usize,
}

impl Budget {
    /// A budget of which nothing is spent. `own` is the own user, or `None` if it cannot be told from others (see
    /// [`crate::own_user`]).
    pub fn new(own: Option<u32>, shares: Shares) -> Arc<Self> {
        Arc::new(Self { own, shares, spent: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a user is the own one.
    pub fn is_own(&self, user: u32) -> bool {
        self.own == Some(user)
    }

    /// Spends something on a user; `None`, and nothing is spent, if that were more than its share.
    pub fn take(self: &Arc<Self>, user: u32, amount: usize) -> Option<Share> {
        let mut ledger = self.lock();
        let Ledger { by_user, strangers } = &mut *ledger;
        let own = self.is_own(user);
        let most = if own { self.shares.own } else { self.shares.stranger };
        let spent = by_user.get(&user).copied().unwrap_or(0).checked_add(amount)?;
        if spent > most || (!own && strangers.saturating_add(amount) > self.shares.strangers) {
            return None;
        }
        if !own {
            *strangers += amount;
        }
        if amount > 0 {
            by_user.insert(user, spent);
        }
        Some(Share { budget: Arc::clone(self), user, amount })
    }

    /// What is spent on a user.
    pub fn spent(&self, user: u32) -> usize {
        self.lock().by_user.get(&user).copied().unwrap_or(0)
    }
}

impl Share {
    /// Whose it is.
    pub fn user(&self) -> u32 {
        self.user
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut ledger = self.budget.lock();
        if !self.budget.is_own(self.user) {
            ledger.strangers -= self.amount;
        }
        if let Some(spent) = ledger.by_user.get_mut(&self.user) {
            *spent -= self.amount;
            if *spent == 0 {
                ledger.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 1000;
    const SHARES: Shares = Shares { own: 10, stranger: 4, strangers: 6 };

    #[test]
    fn a_user_has_its_share_and_no_more_until_it_is_given_back() {
        let budget = Budget::new(Some(OWN), SHARES);
        let three = budget.take(1, 3).unwrap();
        assert!(budget.take(1, 2).is_none());
        assert_eq!((budget.spent(1), budget.lock().strangers), (3, 3));
        let one = budget.take(1, 1).unwrap();
        assert!(budget.take(1, 1).is_none());
        drop(three);
        assert_eq!(budget.spent(1), 1);
        let _three = budget.take(1, 3).unwrap();
        drop(one);
        assert!(budget.take(1, usize::MAX).is_none() && budget.take(1, 2).is_none());
    }

    #[test]
    fn what_strangers_take_is_bounded_together_and_leaves_the_own_user_its_own() {
        let budget = Budget::new(Some(OWN), SHARES);
        let strangers: Vec<_> =
            [(1, 4), (2, 2)].map(|(user, amount)| budget.take(user, amount).unwrap()).into();
        assert!(budget.take(2, 1).is_none() && budget.take(3, 1).is_none());
        let own = budget.take(OWN, 10).unwrap();
        assert!(budget.take(OWN, 1).is_none());
        drop((strangers, own));
        assert!(budget.lock().by_user.is_empty() && budget.lock().strangers == 0);
    }

    #[test]
    fn where_the_own_user_is_not_certain_all_are_strangers() {
        let budget = Budget::new(None, SHARES);
        let _all = budget.take(OWN, 4).unwrap();
        assert!(budget.take(OWN, 1).is_none());
    }

    #[test]
    fn the_smallest_limit_leaves_each_something() {
        assert_eq!(Shares::of_limit(1), Shares { own: 1, stranger: 1, strangers: 1 });
        assert_eq!(Shares::of_limit(1024), Shares { own: 1024, stranger: 128, strangers: 256 });
    }
}
