//! Which way bytes take from one process to the memory of another, and what is in the way of a better one.

use nonic_memory::AdoptionPolicy;
use nonic_transport::{Answered, LinkFacts, Probe, Settings, Standing, Tier as Limit};
use serde::Serialize;

use super::regions::Lie;
use super::words;
use crate::doctor::report::Tier;

/// One of the two processes, as far as it can be seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) pid: i32,
    pub(super) uid: u32,
    /// Nothing if its segment cannot be read.
    pub(super) settings: Option<Settings>,
}

/// What the initiator can do with the target's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Way {
    /// For adopted pages of ordinary memory.
    pub(super) tier: Tier,
    /// The kernel copies what is not mapped.
    pub(super) kernel: bool,
    /// Device memory and shared files are mapped.
    pub(super) shared_memory: bool,
    /// Apertures of 64 GiB and of 1 GiB onto the target's adopted pages; nothing where the initiator cannot be asked.
    pub(super) apertures: Option<[u8; 2]>,
    /// What is in the way of something better.
    pub(super) obstacle: Option<String>,
    /// The one change that would lift it.
    pub(super) fix: Option<String>,
}

impl Way {
    /// From the process that has the link to its peer.
    pub(super) fn to_peer(owner: End, peer: End, facts: &LinkFacts) -> Self {
        let limit = owner.settings.map_or(Limit::Ring, |settings| settings.tier);
        let kernel = facts.shown && facts.probe == Probe::Reached;
        let map = facts.can_map;
        let mut way = Self::new(map, kernel, facts.shown && limit == Limit::Mapped);
        way.apertures = Some([facts.large_apertures, facts.small_apertures]);
        way.hinder(owner, peer, distrust(owner, peer, facts), Some(facts));
        way
    }

    /// From the peer to the process that has the link, by what the peer said when they met.
    pub(super) fn from_peer(owner: End, peer: End, facts: &LinkFacts) -> Self {
        let mut way = Self::new(facts.peer_can_map, facts.peer_can_reach, facts.peer_can_map);
        way.hinder(peer, owner, distrust(owner, peer, facts), None);
        if facts.pulls_stopped && way.obstacle.is_none() {
            way.obstacle = Some(
                "the peer once found no way to bytes it was to fetch; long sends travel in the ring".into(),
            );
            way.fix = Some("start both again".into());
        }
        way
    }

    fn new(map: bool, kernel: bool, shared_memory: bool) -> Self {
        let tier = match (map, kernel) {
            (true, _) => Tier::Mapped,
            (false, true) => Tier::Kernel,
            (false, false) => Tier::Ring,
        };
        Self { tier, kernel, shared_memory, apertures: None, obstacle: None, fix: None }
    }

    /// The way to the bytes of a region that lies like this.
    pub(super) fn tier_for(&self, lie: Lie) -> Tier {
        let below = if self.kernel { Tier::Kernel } else { Tier::Ring };
        match lie {
            Lie::Adopted | Lie::PartlyAdopted if self.tier == Tier::Mapped => Tier::Mapped,
            Lie::Device if self.shared_memory => Tier::Mapped,
            Lie::Device | Lie::Shadow | Lie::OnDemand | Lie::Imported | Lie::Null => Tier::Ring,
            Lie::SharedFile if self.shared_memory => Tier::Mapped,
            Lie::Adopted | Lie::PartlyAdopted | Lie::Plain | Lie::SharedFile => below,
        }
    }

    /// Says what is in the way; nothing if there is nothing better.
    fn hinder(&mut self, from: End, to: End, distrust: Option<Obstacle>, facts: Option<&LinkFacts>) {
        let found = self.obstacle(from, to, distrust, facts);
        (self.obstacle, self.fix) = match found {
            Some((obstacle, fix)) => (Some(obstacle), fix),
            None => (None, None),
        };
    }

    fn obstacle(
        &self,
        from: End,
        to: End,
        distrust: Option<Obstacle>,
        facts: Option<&LinkFacts>,
    ) -> Option<Obstacle> {
        let lifted = |obstacle: String, fix: &str| Some((obstacle, Some(fix.to_owned())));
        if self.tier != Tier::Mapped {
            if let Some(limited) = limited(from, to, Limit::Ring) {
                return Some(limited);
            }
            if distrust.is_some() {
                return distrust;
            }
            if let Some(limited) = limited(from, to, Limit::Kernel) {
                return Some(limited);
            }
            match to.settings {
                Some(Settings { adoption: AdoptionPolicy::Never, .. }) => {
                    return lifted(
                        format!("NONIC_ADOPT=never in process {}", to.pid),
                        &format!("start process {} with NONIC_ADOPT=auto", to.pid),
                    );
                }
                Some(Settings { has_file: false, .. }) => {
                    return lifted(
                        format!(
                            "process {} could not make a file for its pages (RLIMIT_FSIZE, memory)",
                            to.pid
                        ),
                        &format!("ulimit -f unlimited, before process {} is started", to.pid),
                    );
                }
                _ => {}
            }
            if facts.is_some_and(|facts| !facts.met) {
                return Some((
                    "the two have not met yet: ask again when they have exchanged a message".into(),
                    None,
                ));
            }
        }
        if let Some(facts) = facts
            && facts.aperture_error != 0
        {
            let error = std::io::Error::from_raw_os_error(facts.aperture_error.into());
            let kind = if facts.small_apertures > 0 { "64 GiB" } else { "any size" };
            return lifted(
                format!("an aperture of {kind} could not be mapped: {error} (RLIMIT_AS)"),
                &format!("ulimit -v unlimited, before process {} is started", from.pid),
            );
        }
        (!self.kernel).then(|| kernel_obstacle(from, to, facts, yama_scope()))
    }
}

/// What is in the way, and the change that lifts it, if there is one.
type Obstacle = (String, Option<String>);

/// Why one of the two is a stranger to the other: both have to prove that the kernel would let them at each other.
fn distrust(owner: End, peer: End, facts: &LinkFacts) -> Option<Obstacle> {
    // Before the two have met nothing is known.
    if !facts.met {
        return None;
    }
    let refused = matches!(facts.answered, Answered::Refused | Answered::Otherwise);
    let (stranger, shy) = match facts.standing {
        Standing::Stranger => (peer, owner),
        _ if !facts.shown && refused => (owner, peer),
        _ => return None,
    };
    let (who, whom) = (stranger.pid, shy.pid);
    if stranger.uid != shy.uid {
        let words = format!("process {who} is of user {}, process {whom} of user {}", stranger.uid, shy.uid);
        return Some((words, Some("run both as the same user".into())));
    }
    let words = format!(
        "process {who} has not proved that the kernel lets it at process {whom} (another user or pid namespace, fewer \
         capabilities, a process that is not dumpable, or a container without /proc)"
    );
    let fix = format!(
        "run both in one container; where they only share a network, start both with NONIC_TRUST={}",
        owner.uid
    );
    Some((words, Some(fix)))
}

/// Whether one of them was told to use no better tier than `limit`.
fn limited(from: End, to: End, limit: Limit) -> Option<Obstacle> {
    let name = if limit == Limit::Ring { "ring" } else { "kernel" };
    [from, to].into_iter().find(|end| end.settings.is_some_and(|settings| settings.tier == limit)).map(
        |end| {
            let words = format!("NONIC_TIER={name} in process {}", end.pid);
            (words, Some(format!("start process {} with NONIC_TIER=auto", end.pid)))
        },
    )
}

/// Why the kernel does not copy, where nothing of ours forbids it.
fn kernel_obstacle(from: End, to: End, facts: Option<&LinkFacts>, yama: Option<u32>) -> Obstacle {
    const ESRCH: u16 = 3;
    const EPERM: u16 = 1;
    let (from, to) = (from.pid, to.pid);
    let elsewhere = || {
        let words = format!("process {to} is in another pid namespace than process {from}");
        (words, Some("run both in one pid namespace (docker run --pid=container:NAME)".to_owned()))
    };
    let error = match facts.map(|facts| (facts.probe, facts.pid)) {
        Some((Probe::OtherProcess | Probe::Refused(ESRCH), _)) => return elsewhere(),
        Some((Probe::NotTried, ..=0)) => return elsewhere(),
        Some((Probe::Refused(error), _)) => Some(error),
        _ => None,
    };
    let told = error.map(|error| std::io::Error::from_raw_os_error(error.into()).to_string());
    let told = told.map_or_else(String::new, |told| format!(": {told}"));
    let what = "bytes beside adopted pages are not copied by the kernel";
    match yama {
        Some(scope @ 1..) if error.is_none_or(|error| error == EPERM) => (
            format!("{what}: Yama's ptrace_scope is {scope}"),
            Some(format!(
                "sudo sysctl kernel.yama.ptrace_scope=0; or, for scope 1, start process {to} with NONIC_PTRACE=any"
            )),
        ),
        _ => (
            format!("{what}{told} (a seccomp filter, a security module, or a process that is not dumpable)"),
            Some(words::ALLOW_COPYING.to_owned()),
        ),
    }
}

fn yama_scope() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use nonic_transport::Route;

    use super::*;

    const BEST: Settings = Settings { tier: Limit::Mapped, adoption: AdoptionPolicy::Auto, has_file: true };
    const MET: LinkFacts = LinkFacts {
        pid: 2,
        uid: 5,
        met: true,
        standing: Standing::Proved,
        answered: Answered::By(Route::Descriptor),
        shown: true,
        adopts: true,
        can_map: true,
        peer_can_map: true,
        peer_can_reach: true,
        pulls_stopped: false,
        probe: Probe::Reached,
        large_apertures: 1,
        small_apertures: 0,
        aperture_error: 0,
    };

    fn end(pid: i32, settings: Settings) -> End {
        End { pid, uid: 5, settings: Some(settings) }
    }

    fn way(peer: Settings, facts: LinkFacts) -> Way {
        Way::to_peer(end(1, BEST), end(2, peer), &facts)
    }

    #[test]
    fn with_nothing_in_the_way_there_is_nothing_to_change() {
        let best = way(BEST, MET);
        assert_eq!((best.tier, best.obstacle.clone(), best.fix.clone()), (Tier::Mapped, None, None));
        assert_eq!(best.tier_for(Lie::Adopted), Tier::Mapped);
        assert_eq!(best.tier_for(Lie::Plain), Tier::Kernel);
        assert_eq!(best.tier_for(Lie::Device), Tier::Mapped);
        assert_eq!(Way::from_peer(end(1, BEST), end(2, BEST), &MET).obstacle, None);
    }

    #[test]
    fn each_obstacle_is_named_with_the_change_that_lifts_it() {
        let unmapped = LinkFacts { can_map: false, adopts: false, ..MET };
        let says = |way: Way, tier, obstacle: &str, fix: &str| {
            assert_eq!(way.tier, tier, "{way:?}");
            assert!(way.obstacle.as_deref().is_some_and(|words| words.contains(obstacle)), "{way:?}");
            assert!(way.fix.as_deref().is_some_and(|words| words.contains(fix)), "{way:?}");
        };
        let never = Settings { adoption: AdoptionPolicy::Never, has_file: false, ..BEST };
        says(way(never, unmapped), Tier::Kernel, "NONIC_ADOPT=never in process 2", "NONIC_ADOPT=auto");
        let fileless = Settings { has_file: false, ..BEST };
        says(way(fileless, unmapped), Tier::Kernel, "RLIMIT_FSIZE", "ulimit -f");
        let ring = Settings { tier: Limit::Ring, ..never };
        let hidden = LinkFacts { shown: false, probe: Probe::NotTried, ..unmapped };
        says(way(ring, hidden), Tier::Ring, "NONIC_TIER=ring in process 2", "NONIC_TIER=auto");
        let unproved = LinkFacts {
            can_map: false,
            peer_can_map: false,
            peer_can_reach: false,
            shown: false,
            standing: Standing::Stranger,
            probe: Probe::NotTried,
            ..MET
        };
        let other_user = End { uid: 6, ..end(2, BEST) };
        says(Way::to_peer(end(1, BEST), other_user, &unproved), Tier::Ring, "user 6", "same user");
        says(Way::from_peer(end(1, BEST), other_user, &unproved), Tier::Ring, "user 6", "same user");
        says(way(BEST, unproved), Tier::Ring, "process 2 has not proved", "NONIC_TRUST=5");
        let refused = LinkFacts { standing: Standing::Proved, answered: Answered::Refused, ..unproved };
        says(way(BEST, refused), Tier::Ring, "process 1 has not proved", "one container");
        let narrow = LinkFacts { aperture_error: 12, small_apertures: 1, ..MET };
        says(way(BEST, narrow), Tier::Mapped, "64 GiB", "ulimit -v");
    }

    #[test]
    fn a_refusal_of_the_kernel_is_told_from_a_namespace_and_from_yama() {
        let kernel = |probe, pid, yama| {
            let facts = LinkFacts { probe, pid, ..MET };
            kernel_obstacle(end(1, BEST), end(2, BEST), Some(&facts), yama)
        };
        assert!(kernel(Probe::Refused(1), 2, Some(1)).1.unwrap().contains("ptrace_scope=0"));
        assert!(kernel(Probe::Refused(1), 2, Some(0)).1.unwrap().contains("process_vm_readv"));
        assert!(kernel(Probe::Refused(38), 2, Some(1)).0.contains("not implemented"));
        assert!(kernel(Probe::Refused(3), 2, Some(1)).0.contains("pid namespace"));
        assert!(kernel(Probe::OtherProcess, 2, None).0.contains("pid namespace"));
        assert!(kernel(Probe::NotTried, 0, None).0.contains("pid namespace"));
    }
}
