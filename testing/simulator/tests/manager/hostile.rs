//! Hosts that keep to nothing.

use nonic_simulator::Chance;
use nonic_simulator::managers::try_hostile;

#[test]
fn whatever_hosts_say_that_keep_to_nothing_no_more_is_kept_or_said_than_may_be() {
    for seed in 1..=20_000 {
        let mut chance = Chance::of_seed(seed);
        let length = 1 + chance.below(600);
        let bytes: Vec<u8> = (0..length).map(|_| chance.below(256) as u8).collect();
        let outcome = std::panic::catch_unwind(|| try_hostile(&bytes));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
