//! Whatever is done in whatever order, against a model of what the program may believe.

use proptest::prelude::*;

use super::*;

/// What is done next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Store,
    PeerWrites,
    DeviceWrites,
    Synchronize,
    Publish,
    PeerReads,
    Register,
    Free,
}

fn steps() -> impl Strategy<Value = Vec<(Step, usize, usize, usize)>> {
    let step = prop_oneof![
        3 => Just(Step::Store), 3 => Just(Step::PeerWrites), 1 => Just(Step::DeviceWrites),
        2 => Just(Step::Synchronize), 1 => Just(Step::Publish), 2 => Just(Step::PeerReads),
        1 => Just(Step::Register), 1 => Just(Step::Free),
    ];
    prop::collection::vec((step, 0usize..REGIONS.len(), 0usize..ROOM, 1usize..90), 0..60)
}

/// A process, and what it has in common with others for each region, if anything.
type Party<'a> = (&'a Shadows, Option<&'a Arc<CommonShadow>>);

/// Against two bytes and two facts for every byte: whatever the seed, a program that leaves out no call sees what the page
/// promises. Regions are made by the parties in turn.
fn never_hurts(
    steps: Vec<(Step, usize, usize, usize)>,
    parties: [Party<'_>; 2],
    memory: &Memory,
) -> Result<(), TestCaseError> {
    let (mut program, mut peers) = ([0u8; ROOM], [0u8; ROOM]);
    let (mut unseen, mut stored) = ([false; ROOM], [false; ROOM]);
    let mut regions: [Option<Through<'_>>; REGIONS.len()] = [const { None }; REGIONS.len()];
    for (value, (step, which, at, length)) in steps.into_iter().enumerate() {
        let value = value as u8 + 1;
        let room = REGIONS[which].clone();
        let at = room.start + at % room.len();
        let range = at..(at + length).min(room.end);
        let through = regions[which].as_ref();
        match (step, through) {
            (Step::Store, _) if !unseen[range.clone()].contains(&true) => {
                memory.store(range.clone(), value);
                program[range.clone()].fill(value);
                stored[range].fill(true);
            }
            (Step::PeerWrites, Some(region)) if !stored[range.clone()].contains(&true) => {
                region.peer_writes(range.clone(), value);
                peers[range.clone()].fill(value);
                unseen[range].fill(true);
            }
            (Step::DeviceWrites, Some(region)) => {
                // At the addresses of the regions, which this memory is not at.
                memory.store(range.clone(), value);
                for (number, place, part) in parts(Through::positions(&range)) {
                    let bytes = vec![value; (part.end - part.start) as usize];
                    if let Some(page) = region.shadows.state().pages.get_mut(&number) {
                        page.with(|page| page.place(&place, &bytes));
                    }
                }
                program[range.clone()].fill(value);
                peers[range.clone()].fill(value);
                unseen[range.clone()].fill(false);
                stored[range].fill(false);
            }
            (Step::Synchronize, Some(region)) => {
                region.synchronize(range.clone());
                for at in range {
                    if unseen[at] {
                        program[at] = peers[at]
                    } else {
                        peers[at] = program[at]
                    }
                    (unseen[at], stored[at]) = (false, false);
                }
            }
            (Step::Publish, Some(region)) => {
                region.publish(range.clone());
                for at in range.filter(|at| !unseen[*at]) {
                    (peers[at], stored[at]) = (program[at], false);
                }
            }
            (Step::PeerReads, Some(region)) => {
                prop_assert_eq!(region.peer_reads(range.clone()), &peers[range]);
            }
            (Step::Register, None) => {
                let (shadows, common) = parties[which % 2];
                regions[which] = Some(Through::of_process(shadows, memory, room.clone(), common));
                for at in room.filter(|at| !unseen[*at]) {
                    (peers[at], stored[at]) = (program[at], false);
                }
            }
            (Step::Free, Some(region)) => {
                region.shadows.remove(region.number);
                regions[which] = None;
                let rest: Vec<_> = regions.iter().flatten().map(Through::range).collect();
                for at in room.filter(|at| !rest.iter().any(|other| other.contains(at))) {
                    (unseen[at], stored[at]) = (false, false);
                }
            }
            _ => {}
        }
        prop_assert_eq!(memory.all(), program);
    }
    let rest = regions.iter().flatten().count();
    for (shadows, _) in parties {
        let own = regions.iter().flatten().filter(|region| std::ptr::eq(region.shadows, shadows));
        prop_assert_eq!(shadows.are_none(), own.count() == 0);
        prop_assert!(rest > 0 || shadows.state().pages.is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_program_that_leaves_out_no_call_is_never_hurt(steps in steps(), seed in 0u64..4) {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        never_hurts(steps, [(&shadows, None), (&shadows, None)], &memory)?;
    }

    #[test]
    fn processes_that_share_memory_and_leave_out_no_call_are_never_hurt(steps in steps(), seed in 0u64..4) {
        let (one, other, memory) = (with_seed(seed), with_seed(seed + 1), Memory::new());
        let [mine, theirs] = opened_twice();
        never_hurts(steps, [(&one, Some(&mine)), (&other, Some(&theirs))], &memory)?;
        prop_assert_eq!((Arc::strong_count(&mine), Arc::strong_count(&theirs)) == (1, 1), one.are_none() && other.are_none());
    }

    #[test]
    fn regions_in_common_and_others_have_one_shadow(steps in steps(), seed in 0u64..4) {
        let (shadows, memory) = (with_seed(seed), Memory::new());
        let [common, _] = opened_twice();
        never_hurts(steps, [(&shadows, None), (&shadows, Some(&common))], &memory)?;
    }
}
