//! Everything that is left to chance in a run.

/// What comes from a seed, or what is said beforehand.
#[derive(Debug)]
enum Source {
    Seed(u64),
    Choices(std::vec::IntoIter<u32>),
}

/// A source of choices that writes them down.
#[derive(Debug)]
pub struct Chance {
    source: Source,
    taken: Vec<u32>,
}

impl Chance {
    /// All of it from a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self { source: Source::Seed(seed), taken: Vec::new() }
    }

    /// The choices of an earlier run, or some of them; behind the last one every choice is the first of what there is.
    pub fn of_choices(choices: Vec<u32>) -> Self {
        Self { source: Source::Choices(choices.into_iter()), taken: Vec::new() }
    }

    /// What was chosen so far.
    pub fn taken(&self) -> &[u32] {
        &self.taken
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u32) -> u32 {
        let raw = match &mut self.source {
            Source::Seed(state) => (splitmix(state) >> 32) as u32,
            Source::Choices(choices) => choices.next().unwrap_or(0),
        };
        let chosen = raw % end;
        self.taken.push(chosen);
        chosen
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u32) -> bool {
        // The first choice is that nothing happens.
        self.below(times) == times - 1
    }
}

/// The next number of the generator SplitMix64 (Steele, Lea, Flood 2014).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_is_chosen_again() {
        let mut first = Chance::of_seed(7);
        let chosen: Vec<u32> = (1..100).map(|end| first.below(end)).collect();
        assert_eq!(first.taken(), chosen);
        let mut second = Chance::of_choices(chosen.clone());
        assert_eq!((1..100).map(|end| second.below(end)).collect::<Vec<_>>(), chosen);
        assert_eq!(second.below(5), 0);
        assert!(!second.once_in(2));
    }
}
