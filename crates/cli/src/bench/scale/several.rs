//! A process for each number of a part.

use std::collections::BTreeMap;
use std::path::Path;

use super::Subject;
use super::plan::Plan;
use super::process::{Ask, Process, Role};
use crate::demo::failure::{Failure, Outcome};

/// The processes that are measured, by the number of what they have; all of them live at the same time.
pub(super) struct Several(BTreeMap<u64, Process>);

impl Several {
    /// Starts one for each number that the plans have. One that cannot be is left out.
    pub(super) fn start(
        role: Role,
        library: &Path,
        processors: &[usize],
        plans: &[Plan],
        failures: &mut Vec<Failure>,
    ) -> Outcome<Self> {
        let mut several = BTreeMap::new();
        for number in plans.iter().flat_map(|plan| plan.numbers.iter().copied()) {
            if several.contains_key(&number) {
                continue;
            }
            let mut process = Process::start(role, library, processors, number)?;
            match process.hear::<()>() {
                Ok(()) => drop(several.insert(number, process)),
                Err(failure) => super::note(failures, failure),
            }
        }
        Ok(Self(several))
    }
}

impl Subject for Several {
    fn ask(&mut self, ask: Ask) -> Outcome<Option<f64>> {
        self.0.get_mut(&ask.number).map_or(Ok(None), |process| process.ask(ask))
    }
}
