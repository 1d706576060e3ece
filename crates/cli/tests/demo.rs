//! `nonic demo`: what it shows is true, and when something is wrong it says so and ends.

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{STEP_DOWN, is_root, nonic, nonic_as_ordinary_user, nonic_behind, run, skip, spawn, works};

const STEPS: [&str; 5] = ["two-sided", "one-sided", "atomics", "device-memory", "refusal"];

/// Runs the demo for machines and checks that it says what a demo that passed says.
#[track_caller]
fn passes(command: &mut Command) -> Value {
    support::library();
    let outcome = run(command.arg("--json")).exits(0);
    let report: Value = serde_json::from_str(&outcome.output).expect("one JSON object");
    assert_eq!(report["passed"], true, "{report:#}");
    assert_eq!(report["error"], Value::Null);
    let names: Vec<_> =
        report["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, STEPS);
    for step in report["steps"].as_array().unwrap() {
        assert_eq!(step["passed"], true, "{step:#}");
        let figures = step["figures"].as_array().unwrap();
        assert!(
            figures.iter().all(|figure| figure["value"].as_f64().is_some_and(|value| value > 0.0)),
            "{step:#}"
        );
    }
    report
}

#[test]
fn it_passes_and_names_two_processes_and_a_device() {
    let report = passes(nonic().arg("demo"));
    assert_ne!(report["processes"][0], report["processes"][1]);
    assert_eq!(report["device"], "nonic0");
    assert_eq!(report["link_layer"], "InfiniBand");
    let unit = |step: usize, figure: usize| report["steps"][step]["figures"][figure]["unit"].clone();
    assert_eq!((unit(0, 0), unit(0, 1)), ("us".into(), "GB/s".into()));
}

#[test]
fn it_passes_on_every_tier() {
    for tier in ["auto", "mapped", "kernel", "ring"] {
        passes(nonic().args(["demo", "--tier", tier]));
    }
}

#[test]
fn it_passes_on_an_ethernet_port() {
    assert_eq!(passes(nonic().args(["demo", "--link-layer", "ethernet"]))["link_layer"], "Ethernet");
}

#[test]
fn it_passes_for_an_ordinary_user() {
    passes(nonic_as_ordinary_user().arg("demo"));
}

#[test]
fn it_passes_in_a_network_namespace_of_its_own() {
    let words =
        if is_root() { [&["unshare", "-n"], &STEP_DOWN[..]].concat() } else { vec!["unshare", "-rn"] };
    if !works(&[&words[..], &["true"]].concat()) {
        return skip("no network namespace can be made here");
    }
    passes(nonic_behind(&words).arg("demo"));
}

#[test]
fn it_passes_with_both_processes_on_one_processor() {
    passes(nonic_behind(&["taskset", "-c", "0"]).arg("demo"));
}

#[test]
fn a_person_reads_every_step_with_its_figures_and_no_escape_codes_in_a_pipe() {
    support::library();
    let output = run(nonic().arg("demo")).exits(0).output;
    for step in STEPS {
        assert!(
            output.lines().any(|line| line.starts_with("  ok") && line.contains(step)),
            "no {step} in {output}"
        );
    }
    assert!(output.contains("All 5 steps passed in"), "{output}");
    assert!(output.contains("send 8 B, half round trip") && output.contains("GB/s"), "{output}");
    assert!(!output.contains('\x1b'), "{output:?}");
}

#[test]
fn one_step_can_be_chosen() {
    support::library();
    let output = run(nonic().args(["demo", "--step", "atomics"])).exits(0).output;
    assert!(output.contains("atomics") && !output.contains("two-sided"), "{output}");
    run(nonic().args(["demo", "--step", "dance"])).exits(2).complains_of(&["'dance'", "atomics"]);
}

#[test]
fn a_device_without_enough_memory_fails_that_step_with_the_reason() {
    support::library();
    let outcome = run(nonic().args(["demo", "--device-memory", "64K"])).exits(1);
    let line = outcome.output.lines().find(|line| line.contains("FAILED")).expect("a failed step").to_owned();
    assert!(line.contains("device-memory") && line.contains("target"), "{line}");
    assert!(outcome.output.contains("NONIC_DEVICE_MEMORY"), "{}", outcome.output);
}

#[test]
fn no_device_at_all_is_said() {
    support::library();
    let outcome = run(nonic().env("NONIC_DEVICES", "0").arg("demo")).exits(1);
    assert!(outcome.output.contains("no device"), "{outcome:#?}");
}

#[test]
fn a_library_that_cannot_be_loaded_is_said() {
    let folder = support::stub_folder();
    let outcome = run(nonic().env("NONIC_LIB_DIR", &*folder).arg("demo")).exits(1);
    assert!(outcome.output.contains("cannot be loaded"), "{outcome:#?}");
}

/// The steps of SCIF.
const SCIF_STEPS: [&str; 5] = ["connection", "window", "remote-write", "remote-map", "fence"];

#[track_caller]
fn scif_passes(command: &mut Command) -> Value {
    support::demo_passes(command, "scif", &SCIF_STEPS)
}

#[test]
fn scif_passes_between_two_nodes() {
    let report = scif_passes(&mut nonic());
    assert_ne!(report["processes"][0], report["processes"][1]);
    let place = |side: usize| report["places"][side].as_str().unwrap().to_owned();
    assert!(place(0).starts_with("node 0 port ") && place(1).starts_with("node 1 port "), "{report:#}");
}

#[test]
fn scif_passes_for_an_ordinary_user_and_beside_others_of_its_kind() {
    support::three_demos_pass("scif");
}

#[test]
fn scif_passes_with_both_processes_on_one_processor() {
    scif_passes(&mut nonic_behind(&["taskset", "-c", "0"]));
}

#[test]
fn scif_says_which_call_failed_where_private_memory_must_not_be_shared() {
    support::library();
    let outcome = run(nonic().env("NONIC_ADOPT", "never").args(["demo", "scif"])).exits(1);
    let failed = outcome.output.lines().find(|line| line.contains("FAILED")).expect("a failed step");
    assert!(failed.contains("remote-map") && failed.contains("scif_mmap"), "{}", outcome.output);
}

#[test]
fn a_person_reads_every_step_of_scif_and_no_step_can_be_left_out() {
    support::library();
    let output = run(nonic().args(["demo", "scif"])).exits(0).output;
    for step in SCIF_STEPS {
        assert!(
            output.lines().any(|line| line.starts_with("  ok") && line.contains(step)),
            "no {step} in {output}"
        );
    }
    assert!(output.contains("All 5 steps passed in") && output.contains("write 1 MiB"), "{output}");
    run(nonic().args(["demo", "scif", "--step", "atomics"])).exits(1).complains_of(&["--step", "verbs"]);
}

#[test]
fn whichever_process_of_scif_is_killed_the_demo_says_so_and_ends() {
    support::demo_ends_with_either_process("scif");
}

/// The steps of uDAPL.
const DAT_STEPS: [&str; 5] = ["register", "bind", "write", "rebind", "sync"];

#[track_caller]
fn dat_passes(command: &mut Command) -> Value {
    support::demo_passes(command, "dat", &DAT_STEPS)
}

#[test]
fn udapl_passes_between_two_processes_and_is_fast() {
    let report = dat_passes(&mut nonic());
    assert_ne!(report["processes"][0], report["processes"][1]);
    assert_eq!(report["device"], "nonic");
    assert!(report["service"].as_u64().is_some_and(|number| number > 0), "{report:#}");
    let figures =
        report["steps"].as_array().unwrap().iter().flat_map(|step| step["figures"].as_array().unwrap());
    assert!(
        figures.clone().count() >= 6 && figures.clone().all(|figure| figure["value"].as_f64() > Some(0.0))
    );
}

#[test]
fn udapl_passes_on_every_tier_and_with_memory_of_every_kind() {
    for tier in ["mapped", "kernel", "ring"] {
        dat_passes(nonic().env("NONIC_TIER", tier));
    }
    dat_passes(nonic().env("NONIC_ADOPT", "never"));
    // What the demo says about an adapter's memory does not depend on what the user has set for programs.
    dat_passes(nonic().env("NONIC_NONCOHERENT", "1"));
}

#[test]
fn udapl_passes_for_an_ordinary_user_and_beside_others_of_its_kind() {
    support::three_demos_pass("dat");
}

#[test]
fn a_person_reads_every_step_of_udapl() {
    support::library();
    let output = run(nonic_behind(&["taskset", "-c", "0"]).args(["demo", "dat"])).exits(0).output;
    for step in DAT_STEPS {
        assert!(
            output.lines().any(|line| line.starts_with("  ok") && line.contains(step)),
            "no {step} in {output}"
        );
    }
    assert!(
        output.contains("All 5 steps passed in") && output.contains("DAT_DTO_ERR_REMOTE_ACCESS"),
        "{output}"
    );
}

#[test]
fn whichever_process_of_udapl_is_killed_the_demo_says_so_and_ends() {
    support::demo_ends_with_either_process("dat");
}

#[test]
fn whichever_process_is_killed_the_demo_says_so_and_ends() {
    support::library();
    for victim in 0..2 {
        let begun = Instant::now();
        let mut child = spawn(nonic().arg("demo").stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        output.read_line(&mut text).unwrap(); // The device is open, and both are at work.
        let pids: Vec<i32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let pid = rustix::process::Pid::from_raw(pids[victim]).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{text}");
        assert!(text.contains("FAILED") && text.contains("signal: 9"), "{text}");
        assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    }
}
