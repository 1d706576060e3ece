//! Which way bytes would take between two processes, from what was tried.

use super::process::Copying;
use super::report::{Line, Tier, Tiers};

/// The tiers of a pair of processes started now; `bound` is the value of `NONIC_TIER`.
pub(super) fn derive(copying: &Copying, bound: Option<&str>) -> Tiers {
    let shared = match bound {
        Some("ring") => Tier::Ring,
        Some("kernel") => kernel_or_ring(copying),
        _ => Tier::Mapped,
    };
    let ordinary = if bound == Some("ring") { Tier::Ring } else { kernel_or_ring(copying) };
    Tiers { same_user: ordinary, same_user_shared_memory: shared, other_user: Tier::Ring }
}

fn kernel_or_ring(copying: &Copying) -> Tier {
    if copying.siblings { Tier::Kernel } else { Tier::Ring }
}

/// The tiers in words, with the reason for each.
pub(super) fn explain(tiers: &Tiers) -> Vec<Line> {
    let ordinary = match tiers.same_user {
        Tier::Ring => {
            "the kernel refuses to copy between two processes of this user, or NONIC_TIER forbids it"
        }
        Tier::Kernel | Tier::Mapped => "the kernel copies between two processes of this user",
    };
    let shared = match tiers.same_user_shared_memory {
        Tier::Mapped => "both processes map it; no system call, no help from the receiver",
        Tier::Kernel | Tier::Ring => "NONIC_TIER forbids what is faster",
    };
    vec![
        Line::ok("ordinary memory", format!("{}: {ordinary}", tiers.same_user.words())),
        Line::ok("device memory", format!("{}: {shared}", tiers.same_user_shared_memory.words())),
        Line::ok("memfd, shm", format!("{}: as device memory", tiers.same_user_shared_memory.words())),
        Line::ok(
            "another user",
            format!("{}: only the owner touches memory, after checking", tiers.other_user.words()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Copying = Copying { siblings: true };
    const BARRED: Copying = Copying { siblings: false };

    #[test]
    fn a_kernel_that_refuses_to_copy_leaves_the_ring_for_ordinary_memory_only() {
        assert_eq!(derive(&FREE, None).same_user, Tier::Kernel);
        let barred = derive(&BARRED, Some("auto"));
        assert_eq!((barred.same_user, barred.same_user_shared_memory), (Tier::Ring, Tier::Mapped));
    }

    #[test]
    fn the_variable_bounds_every_tier_and_other_users_always_get_the_ring() {
        assert_eq!(derive(&FREE, Some("ring")).same_user_shared_memory, Tier::Ring);
        assert_eq!(derive(&FREE, Some("kernel")).same_user_shared_memory, Tier::Kernel);
        assert_eq!(derive(&FREE, Some("mapped")).other_user, Tier::Ring);
    }
}
