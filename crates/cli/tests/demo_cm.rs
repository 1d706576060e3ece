//! `nonic demo cm`: what it shows of the connection manager is true, and when something is wrong it says so and ends.

mod support;

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;
use support::{STEP_DOWN, is_root, nonic, nonic_behind, run, skip, works};

const STEPS: [&str; 5] = ["resolve", "connect", "transfer", "refuse", "end"];

#[track_caller]
fn passes(command: &mut Command) -> Value {
    support::demo_passes(command, "cm", &STEPS)
}

/// What a demo that failed prints.
#[track_caller]
fn failed_step(command: &mut Command) -> String {
    let outcome = run(command.args(["demo", "cm"])).exits(1);
    let line = outcome.output.lines().find(|line| line.contains("FAILED"));
    assert!(line.is_some_and(|line| line.contains("resolve")), "{}", outcome.output);
    // The report breaks lines where a folder's name happens to end them.
    outcome.output.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn it_passes_and_names_two_processes_a_device_and_an_address() {
    let report = passes(&mut nonic());
    assert_ne!(report["processes"][0], report["processes"][1]);
    assert_eq!((&report["device"], &report["link_layer"]), (&"nonic0".into(), &"InfiniBand".into()));
    let address: SocketAddr = report["address"].as_str().unwrap().parse().unwrap();
    assert!(address.ip().is_loopback() && address.port() > 0, "{address}");
    for step in report["steps"].as_array().unwrap() {
        let figures = step["figures"].as_array().unwrap();
        assert!(!figures.is_empty(), "{step:#}");
        assert!(figures.iter().all(|figure| figure["value"].as_f64() > Some(0.0)), "{step:#}");
    }
}

#[test]
fn it_passes_on_every_tier_and_on_an_ethernet_port() {
    for tier in ["mapped", "kernel", "ring"] {
        passes(nonic().env("NONIC_TIER", tier));
    }
    passes(nonic().env("NONIC_ADOPT", "never"));
    assert_eq!(passes(nonic().env("NONIC_LINK_LAYER", "ethernet"))["link_layer"], "Ethernet");
}

#[test]
fn it_passes_for_an_ordinary_user_and_beside_others_of_its_kind() {
    support::three_demos_pass("cm");
}

#[test]
fn it_passes_in_a_network_namespace_of_its_own() {
    let words =
        if is_root() { [&["unshare", "-n"], &STEP_DOWN[..]].concat() } else { vec!["unshare", "-rn"] };
    if !works(&[&words[..], &["true"]].concat()) {
        return skip("no network namespace can be made here");
    }
    passes(&mut nonic_behind(&words));
}

#[test]
fn a_person_reads_every_step_and_no_step_can_be_left_out() {
    support::library();
    let output = run(nonic_behind(&["taskset", "-c", "0"]).args(["demo", "cm"])).exits(0).output;
    for step in STEPS {
        assert!(
            output.lines().any(|line| line.starts_with("  ok") && line.contains(step)),
            "no {step} in {output}"
        );
    }
    assert!(output.contains("All 5 steps passed in") && output.contains("EINVAL"), "{output}");
    assert!(
        output.lines().next().is_some_and(|line| line.contains("nonic0") && line.contains("127.0.0.1 port"))
    );
    run(nonic().args(["demo", "cm", "--step", "atomics"])).exits(1).complains_of(&["--step", "verbs"]);
}

#[test]
fn no_device_and_libraries_that_are_not_those_are_said() {
    support::library();
    assert!(failed_step(nonic().env("NONIC_DEVICES", "0")).contains("no device"));
    let folder = support::scratch();
    let real = support::program().with_file_name("nonic-lib");
    symlink(real.join("libibverbs.so.1"), folder.join("libibverbs.so.1")).unwrap();
    let words = failed_step(nonic().env("NONIC_LIB_DIR", &*folder));
    assert!(words.contains("cannot be loaded") && words.contains("librdmacm.so.1"), "{words}");
    symlink(real.join("libibverbs.so.1"), folder.join("librdmacm.so.1")).unwrap();
    let words = failed_step(nonic().env("NONIC_LIB_DIR", &*folder));
    assert!(words.contains("has no rdma_create_event_channel@RDMACM_1.0"), "{words}");
}

#[test]
fn whichever_process_is_killed_the_demo_says_so_and_ends() {
    support::demo_ends_with_either_process("cm");
}
