//! The rules of a connection, in some million steps of everything that can happen, within one host and on a wire: proves RC-1 and
//! RC-2; and those of the connection manager there: CM-1. `ci/simulate` takes as many as it is told.

#![forbid(unsafe_code)]

use nonic_simulator::managers::Managers;
use nonic_simulator::wire::Wire;
use nonic_simulator::{Scenario, World, shrink, try_seed};

/// Steps in all, from the same seeds each time.
const STEPS: u64 = 40_000_000;

/// The same on a wire.
const WIRE_STEPS: u64 = 2_000_000;

/// Of connection managers.
const MANAGERS_STEPS: u64 = 2_000_000;

#[test]
fn whatever_happens_every_request_ends_once_in_order_with_a_cause_and_none_waits_for_ever() {
    try_all::<World>(STEPS, "");
}

#[test]
fn whatever_a_wire_does_every_request_ends_once_in_order_with_a_cause_and_none_waits_for_ever() {
    try_all::<Wire>(WIRE_STEPS, " --wire");
}

#[test]
fn whatever_a_wire_does_connection_managers_agree_in_the_end_and_none_waits_for_ever() {
    try_all::<Managers>(MANAGERS_STEPS, " --managers");
}

fn try_all<S: Scenario>(steps: u64, option: &str) {
    let mut taken = 0;
    for seed in 1.. {
        if taken >= steps {
            break;
        }
        taken += try_seed::<S>(seed).unwrap_or_else(|failure| {
            let short = shrink::<S>(&failure).failure;
            panic!(
                "seed {seed}: {}\nshorter, {} steps: {}\n    simulate{option} {} --choices {:?}",
                failure.message, short.step, short.message, short.step, short.choices
            )
        });
    }
}
