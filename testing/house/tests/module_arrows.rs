//! Uses between the modules at the top of a crate point one way, but for those known to point back.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use nonic_house::{Uses, cycle, module_uses};

/// A crate's folder, and its uses that point back: the module that uses, and the one that is used. The list only ever gets
/// shorter.
struct Crate {
    folder: &'static str,
    back: &'static [(&'static str, &'static str)],
}

const CRATES: [Crate; 8] = [
    Crate { folder: "crates/memory", back: &[] },
    Crate { folder: "crates/transport", back: &[] },
    Crate {
        folder: "crates/device",
        back: &[
            // An event holds the object that it is about.
            ("async_event", "completion_queue"),
            ("async_event", "queue_pair"),
            ("async_event", "shared_receive_queue"),
            // An object holds what it was made from, and makes others.
            ("context", "device"),
            ("region", "memory_window"),
            ("region", "shadow"),
            // Whoever waits at a channel drives the device for its queues.
            ("completion_queue", "completion_channel"),
            ("context", "event_wait"),
            ("event_wait", "completion_channel"),
            // The engine finds the objects by number, and carries on what they began.
            ("engine", "agent"),
            ("engine", "completion_queue"),
            ("engine", "memory_window"),
            ("engine", "own_thread"),
            ("engine", "pair_table"),
            ("engine", "presence"),
            ("engine", "queue_pair"),
            ("engine", "region"),
            ("engine", "shared_receive_queue"),
        ],
    },
    Crate {
        folder: "crates/connection",
        back: &[
            // The first who needs the manager's thread starts it.
            ("shared", "manager"),
            // What is asked for is given to who is told.
            ("sinks", "handles"),
        ],
    },
    Crate {
        folder: "crates/dat",
        back: &[
            // An event holds the object that it is about, and the objects make events.
            ("endpoint", "event"),
            ("event_dispatcher", "event"),
            ("interface_adapter", "event"),
            ("service_point", "event"),
            ("shared_receive_queue", "event"),
            // Completions pass through the dispatcher of the endpoint, and end the binds of remote regions.
            ("endpoint", "event_dispatcher"),
            ("endpoint", "remote_region"),
            // An adapter knows its objects, and they hold it.
            ("interface_adapter", "event_dispatcher"),
            ("interface_adapter", "local_region"),
            ("interface_adapter", "shared_receive_queue"),
            ("members", "shared_receive_queue"),
            // Both know each other.
            ("notification_object", "event_dispatcher"),
            ("shared_memory", "local_region"),
        ],
    },
    Crate {
        folder: "crates/scif",
        back: &[
            // Measures the clock before the first call.
            ("connection", "lease"),
            // An entry holds the attempt to connect, and is looked after when the process forks.
            ("registry", "attempt"),
            ("registry", "fork"),
        ],
    },
    Crate { folder: "crates/roce", back: &[] },
    Crate { folder: "crates/cli", back: &[] },
];

/// The uses that do not point back.
fn forward<'a>(
    uses: &'a Uses,
    back: &'a [(&'a str, &'a str)],
) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
    let uses = uses.keys().map(|(from, to)| (from.as_str(), to.as_str()));
    uses.filter(|pair| !back.contains(pair))
}

#[test]
fn uses_between_modules_go_round_in_no_circle_but_the_known_ones() {
    let mut faults = Vec::new();
    for Crate { folder, back } in CRATES {
        let uses = module_uses(folder);
        if let Some(circle) = cycle(forward(&uses, back)) {
            let next = circle.iter().cycle().skip(1);
            let steps = circle.iter().zip(next).map(|(from, to)| {
                let place = &uses[&((*from).to_owned(), (*to).to_owned())];
                format!("    {from} uses {to} ({place})")
            });
            faults.push(format!(
                "modules of {folder} use each other in a circle:\n{}\n  move what two of them need into one that both use",
                steps.collect::<Vec<_>>().join("\n")
            ));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_known_use_that_points_back_is_still_there_and_still_needed() {
    let mut faults = Vec::new();
    for Crate { folder, back } in CRATES {
        let uses = module_uses(folder);
        let known: BTreeSet<_> = back.iter().collect();
        assert_eq!(known.len(), back.len(), "a pair of {folder} is listed twice");
        for (from, to) in back {
            if !uses.contains_key(&((*from).to_owned(), (*to).to_owned())) {
                faults.push(format!(
                    "{from} of {folder} does not use {to} any more: take the pair off this list"
                ));
            } else if cycle(forward(&uses, back)).is_none()
                && cycle(forward(&uses, back).chain([(*from, *to)])).is_none()
            {
                faults.push(format!(
                    "{from} of {folder} may use {to}, no circle is left: take the pair off this list"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_parts_of_a_link_know_neither_each_other_nor_the_link() {
    let parts = ["channel", "reach", "session"];
    let uses = module_uses("crates/transport");
    for part in parts {
        assert!(uses.contains_key(&("link".to_owned(), part.to_owned())), "link has no {part}");
    }
    let faults: Vec<_> = uses
        .iter()
        .filter(|((from, to), _)| {
            parts.contains(&from.as_str()) && (to == "link" || parts.contains(&to.as_str()))
        })
        .map(|((from, to), place)| format!("{from} uses {to} ({place})"))
        .collect();
    assert!(faults.is_empty(), "pass in what a part needs of another:\n{}", faults.join("\n"));
}
