//! What both programs have done, by which is judged what they are told.

use std::collections::BTreeMap;

use nonic_protocol::QpNumber;

use super::program::{Phase, Program};

/// What one side has done in an attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deeds {
    pub(super) rejected: bool,
    pub(super) wanted_end: bool,
    /// It knows nothing of it any more, and perhaps could not say so.
    pub(super) is_gone: bool,
    /// It was connected, and no late packet is expected any more.
    pub(super) is_over: bool,
}

/// An attempt to connect, or a question, by its token, which travels in private data.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) asker: usize,
    pub(super) asker_pair: QpNumber,
    pub(super) is_listened_for: bool,
    /// With which queue pairs: more than one if the host that did was killed.
    pub(super) accepted: Vec<QpNumber>,
    /// What the asker was replied to by, and whether it is ready.
    pub(super) replied_by: u32,
    pub(super) is_ready: bool,
    pub(super) was_established: bool,
    /// By side.
    pub(super) deeds: [Deeds; 2],
}

/// All attempts of a run.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pub(super) by_token: BTreeMap<u64, Attempt>,
    pub(super) kills: u32,
}

impl Attempts {
    pub(super) fn begin(&mut self, asker: usize, asker_pair: QpNumber, is_listened_for: bool) -> u64 {
        let token = self.by_token.len() as u64 + 1;
        let attempt = Attempt {
            asker,
            asker_pair,
            is_listened_for,
            accepted: Vec::new(),
            replied_by: 0,
            is_ready: false,
            was_established: false,
            deeds: [Deeds::default(); 2],
        };
        self.by_token.insert(token, attempt);
        token
    }

    pub(super) fn of(&mut self, token: u64) -> &mut Attempt {
        self.by_token.get_mut(&token).expect("somebody has begun it")
    }

    pub(super) fn killed(&mut self, number: usize) {
        self.kills += 1;
        self.by_token.values_mut().for_each(|attempt| attempt.deeds[number].is_gone = true);
    }

    /// Nothing is under way: who is connected is so with one that is connected with it, or that has gone without being heard.
    pub(super) fn check_agreement(&self, programs: [&Program; 2], harms: u64) {
        for number in 0..2 {
            for known in programs[number].known.values() {
                assert_eq!(known.phase, Phase::Connected, "it waits for ever: {known:?}");
                let attempt = &self.by_token[&known.token];
                let other = programs[1 - number].known.values().find(|other| other.token == known.token);
                let Some(other) = other else {
                    let unheard = attempt.deeds[1 - number].is_gone && (harms > 0 || self.kills > 0);
                    assert!(unheard, "connected with nobody: {known:?}, {attempt:?}");
                    continue;
                };
                assert_eq!(other.phase, Phase::Connected, "connected with one that is not: {known:?}");
                let pairs = [known.pair, other.pair];
                let [asker, asked] = if attempt.asker == number { pairs } else { [pairs[1], pairs[0]] };
                let right = asker == attempt.asker_pair && attempt.accepted.contains(&asked);
                assert!(right, "other queue pairs: {known:?}, {other:?}, {attempt:?}");
            }
        }
    }
}
