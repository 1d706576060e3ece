//! A run that fails: what failed, and the shortest run found that fails in the same way.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::chance::Chance;

/// Steps of a run before it ends.
pub(crate) const STEPS: u64 = 400;

/// What is run: it begins with nothing but a source of choices.
pub trait Scenario {
    /// One in which nothing has happened yet.
    fn new(chance: Chance) -> Self;
    /// Prints every step from now on.
    fn tell(&mut self);
    /// How many steps were taken.
    fn step(&self) -> u64;
    /// What was chosen so far.
    fn choices(&self) -> &[u32];
    /// So many steps, and the end.
    ///
    /// # Panics
    /// If something happens that may not.
    fn run(&mut self, steps: u64);
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// At which step, counted from 1; the end counts as the last.
    pub step: u64,
    /// What was not as it has to be.
    pub message: String,
    /// All that was chosen until then.
    pub choices: Vec<u32>,
}

/// The shortest run found.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// How it fails.
    pub failure: Failure,
    /// Runs that were tried.
    pub tried: u32,
}

/// One run from a seed; the steps it took.
pub fn try_seed<S: Scenario>(seed: u64) -> Result<u64, Failure> {
    try_run(S::new(Chance::of_seed(seed)), STEPS)
}

/// The run of these choices, of so many steps.
pub fn try_choices<S: Scenario>(choices: Vec<u32>, steps: u64) -> Result<u64, Failure> {
    try_run(S::new(Chance::of_choices(choices)), steps)
}

/// The same, and every step is printed.
pub fn tell_choices<S: Scenario>(choices: Vec<u32>, steps: u64) -> Result<u64, Failure> {
    let mut world = S::new(Chance::of_choices(choices));
    world.tell();
    try_run(world, steps)
}

fn try_run(mut world: impl Scenario, steps: u64) -> Result<u64, Failure> {
    tell_no_panics();
    panic::catch_unwind(AssertUnwindSafe(|| world.run(steps))).map(|()| steps).map_err(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let message = text.or_else(|| cause.downcast_ref::<&str>().map(|text| text.to_string()));
        let mut choices = world.choices().to_vec();
        // Behind the last one every choice is the first.
        while choices.pop_if(|choice| *choice == 0).is_some() {}
        Failure { step: world.step(), message: message.unwrap_or_default(), choices }
    })
}

/// What a run panics with is told once, at the end, by whoever asked for it.
fn tell_no_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let here = info.location().is_some_and(|at| {
                ["testing/simulator/src", "crates/protocol/src", "crates/roce/src"]
                    .iter()
                    .any(|folder| at.file().contains(folder))
            });
            if !here {
                others(info);
            }
        }));
    });
}

/// Makes a run shorter as long as it fails in the same way: takes fewer steps, leaves choices out, and takes the first of what
/// there is in place of others.
pub fn shrink<S: Scenario>(failure: &Failure) -> Shrunk {
    shrink_by(failure, try_choices::<S>)
}

fn shrink_by(failure: &Failure, run: impl Fn(Vec<u32>, u64) -> Result<u64, Failure>) -> Shrunk {
    let mut best = Shrunk { failure: failure.clone(), tried: 0 };
    let mut size = best.failure.choices.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < best.failure.choices.len() {
            let choices = &best.failure.choices;
            let end = (at + size).min(choices.len());
            let without = [&choices[..at], &choices[end..]].concat();
            let plainer = [&choices[..at], &vec![0; end - at], &choices[end..]].concat();
            let fewer = best.failure.step.saturating_sub(size as u64).max(1);
            let steps = best.failure.step;
            let candidates = [(choices.clone(), fewer), (without, steps), (plainer, steps)];
            let shorter = candidates.into_iter().find_map(|(choices, steps)| {
                best.tried += 1;
                run(choices, steps).err().filter(|again| is_shorter(again, &best.failure))
            });
            match shorter {
                Some(again) => best.failure = again,
                None => at = end,
            }
        }
        size /= 2;
    }
    best
}

/// Whether a run fails as another one does, and is shorter, or its choices are plainer.
fn is_shorter(run: &Failure, other: &Failure) -> bool {
    let kind = |run: &Failure| run.message.split([':', '\n']).take(2).map(str::to_owned).collect::<Vec<_>>();
    let size = |run: &Failure| (run.step, run.choices.len(), run.choices.clone());
    kind(run) == kind(other) && size(run) < size(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    /// Fails at the step in which a 9 comes somewhere behind a 7; two choices a step.
    fn toy(choices: Vec<u32>, steps: u64) -> Result<u64, Failure> {
        let mut seen = false;
        for (step, pair) in (1..=steps).zip(choices.chunks(2)) {
            seen |= pair.contains(&7);
            if seen && pair.contains(&9) {
                let choices = choices[..(step as usize * 2).min(choices.len())].to_vec();
                return Err(Failure { step, message: "a 9 behind a 7: here".to_owned(), choices });
            }
        }
        Ok(steps)
    }

    #[test]
    fn of_a_run_that_fails_remains_what_it_takes() {
        let mut choices: Vec<u32> = (0..400).map(|number| number % 7).collect();
        (choices[150], choices[311]) = (7, 9);
        let failure = toy(choices, 200).expect_err("it has both");
        let short = shrink_by(&failure, toy);
        assert_eq!((short.failure.step, short.failure.choices), (1, vec![7, 9]));
        assert!(short.tried < 5000, "{}", short.tried);
    }

    #[test]
    fn a_run_is_the_same_again_from_its_seed_and_from_its_choices() {
        let mut runs = (0..20).map(|seed| {
            let mut worlds = [World::new(Chance::of_seed(seed)), World::new(Chance::of_seed(seed))];
            worlds.iter_mut().for_each(|world| world.run(STEPS));
            let choices = worlds[0].choices().to_vec();
            let mut third = World::new(Chance::of_choices(choices.clone()));
            third.run(STEPS);
            choices == worlds[1].choices() && choices == third.choices()
        });
        assert!(runs.all(|same| same));
    }
}
