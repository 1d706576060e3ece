//! Which way bytes would take between two processes: what the engine did when it was tried, else what follows from what
//! the kernel allows.

use super::process::Copying;
use super::reach::Reach;
use super::report::{Line, Tier, Tiers};

/// What came of trying it; nothing where the library cannot be loaded.
pub(super) type Tried = Option<Result<Reach, String>>;

/// The most that two processes can reach of each other where the kernel allows what it does.
pub(super) fn best(copying: &Copying, bound: Option<&str>) -> Reach {
    let mapped = !matches!(bound, Some("ring" | "kernel"));
    Reach { ordinary: copying.siblings && bound != Some("ring"), device: mapped, adopted: mapped }
}

/// The tiers of a pair of processes started now; `bound` is the value of `NONIC_TIER`.
pub(super) fn conclude(copying: &Copying, bound: Option<&str>, tried: &Tried) -> Tiers {
    let reach = match tried {
        Some(Ok(reach)) => *reach,
        _ => Reach { adopted: false, ..best(copying, bound) },
    };
    Tiers {
        same_user: match (reach.ordinary, reach.adopted) {
            (true, true) => Tier::Mapped,
            (true, false) => Tier::Kernel,
            (false, _) => Tier::Ring,
        },
        same_user_shared_memory: if reach.device { Tier::Mapped } else { Tier::Ring },
        other_user: Tier::Ring,
    }
}

/// The tiers in words, each with what shows it.
pub(super) fn explain(tiers: &Tiers, bound: Option<&str>, tried: &Tried) -> Vec<Line> {
    let bound = bound.map(|bound| format!(" (NONIC_TIER={bound})")).unwrap_or_default();
    let shows = |direct: bool| match (tried, direct) {
        (Some(Ok(_)), true) => "bytes reached a process that was stopped, so without its help",
        (Some(Ok(_)), false) => "no byte reached a process while it was stopped: its device must help",
        (_, true) => "the kernel allows it (not tried: the library does not load)",
        (_, false) => "the kernel or NONIC_TIER forbids what is faster",
    };
    let ordinary = shows(tiers.same_user != Tier::Ring);
    let shared = shows(tiers.same_user_shared_memory == Tier::Mapped);
    let pages = match tiers.same_user {
        Tier::Mapped => " (its whole pages, which are adopted; what lies beside them: kernel copy or ring)",
        _ => "",
    };
    let mut lines = vec![
        Line::ok("ordinary memory", format!("{}{pages}: {ordinary}{bound}", tiers.same_user.words())),
        Line::ok("device memory", format!("{}: {shared}{bound}", tiers.same_user_shared_memory.words())),
        Line::ok("memfd, shm", format!("{}: as device memory", tiers.same_user_shared_memory.words())),
        Line::ok(
            "another user",
            format!("{}: only the owner touches memory, after checking", tiers.other_user.words()),
        ),
    ];
    if let Some(Err(words)) = tried {
        let value = format!("two processes could not move a byte: {words}");
        lines.push(Line::problem("transfer", value, "see where it fails: nonic demo --log debug"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Copying = Copying { siblings: true };
    const BARRED: Copying = Copying { siblings: false };

    #[test]
    fn what_the_engine_did_counts_more_than_what_the_kernel_allows() {
        let tried = Some(Ok(Reach { ordinary: false, device: true, adopted: false }));
        assert_eq!(conclude(&FREE, None, &tried).same_user, Tier::Ring);
        assert_eq!(conclude(&FREE, None, &tried).same_user_shared_memory, Tier::Mapped);
        let tried = Some(Ok(Reach { ordinary: true, device: true, adopted: true }));
        assert_eq!(conclude(&BARRED, None, &tried).same_user, Tier::Mapped);
    }

    #[test]
    fn untried_the_kernel_and_the_variable_decide() {
        assert_eq!(conclude(&FREE, None, &None).same_user, Tier::Kernel);
        assert_eq!(conclude(&BARRED, Some("auto"), &None).same_user, Tier::Ring);
        assert_eq!(conclude(&BARRED, Some("auto"), &None).same_user_shared_memory, Tier::Mapped);
        assert_eq!(conclude(&FREE, Some("ring"), &None).same_user, Tier::Ring);
        assert_eq!(conclude(&FREE, Some("kernel"), &None).same_user_shared_memory, Tier::Ring);
    }

    #[test]
    fn processes_that_cannot_move_a_byte_are_a_problem() {
        let tried = Some(Err("no peer".to_owned()));
        let lines = explain(&conclude(&FREE, None, &tried), None, &tried);
        assert!(serde_json::to_string(&lines).unwrap().contains("could not move a byte: no peer"));
    }
}
