//! The rules of a connection, in some million steps of everything that can happen: proves RC-1. `ci/simulate` takes as many
//! as it is told.

#![forbid(unsafe_code)]

use nonic_simulator::{shrink, try_seed};

/// Steps in all, from the same seeds each time.
const STEPS: u64 = 40_000_000;

#[test]
fn whatever_happens_every_request_ends_once_in_order_with_a_cause_and_none_waits_for_ever() {
    let mut taken = 0;
    for seed in 1.. {
        if taken >= STEPS {
            break;
        }
        taken += try_seed(seed).unwrap_or_else(|failure| {
            let short = shrink(&failure).failure;
            panic!(
                "seed {seed}: {}\nshorter, {} steps: {}\n    simulate {} --choices {:?}",
                failure.message, short.step, short.message, short.step, short.choices
            )
        });
    }
}
