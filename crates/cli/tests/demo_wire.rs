//! `nonic demo wire`: what it shows of the wire is true, and where it cannot be shown that is said.

mod support;

use std::process::Command;

use serde_json::Value;
use support::{
    STEP_DOWN, is_root, lacks_networks, nonic, nonic_as_ordinary_user, nonic_behind, run, skip, works,
};

const STEPS: [&str; 6] = ["connect", "two-sided", "one-sided", "atomics", "refusal", "loss"];

#[track_caller]
fn passes(command: &mut Command) -> Value {
    let report = support::demo_passes(command, "wire", &STEPS);
    assert_ne!(report["processes"][0], report["processes"][1]);
    assert_eq!(report["device"], "nonic0");
    assert_eq!(report["ends"], serde_json::json!(["10.77.0.1", "10.77.0.2"]));
    let steps = report["steps"].as_array().unwrap();
    for step in steps.iter().filter(|step| step["name"] != "refusal") {
        let figures = step["figures"].as_array().unwrap();
        assert!(!figures.is_empty(), "{step:#}");
        assert!(figures.iter().all(|figure| figure["value"].as_f64() > Some(0.0)), "{step:#}");
    }
    // Memory is never as far as this: between processes of one network the same takes less than a microsecond.
    let latency = &steps[1]["figures"][0];
    assert!(latency["unit"] == "us" && latency["value"].as_f64() > Some(1.5), "{latency:#}");
    report
}

#[test]
fn it_passes_between_two_networks() {
    if !lacks_networks() {
        passes(&mut nonic());
    }
}

#[test]
fn it_passes_for_an_ordinary_user_in_networks_of_his_own() {
    let words = if is_root() {
        [&STEP_DOWN[..], &["unshare", "-Un", "true"]].concat()
    } else {
        vec!["unshare", "-Un", "true"]
    };
    if !works(&words) {
        return skip("an ordinary user may make no network here");
    }
    passes(&mut nonic_as_ordinary_user());
}

#[test]
fn it_passes_with_both_processes_on_one_processor_and_on_an_ethernet_port() {
    if !lacks_networks() {
        passes(nonic_behind(&["taskset", "-c", "0"]).env("NONIC_LINK_LAYER", "ethernet"));
    }
}

#[test]
fn a_person_reads_every_step_and_no_step_can_be_left_out() {
    if lacks_networks() {
        return;
    }
    support::library();
    let output = run(nonic().args(["demo", "wire"])).exits(0).output;
    for step in STEPS {
        assert!(
            output.lines().any(|line| line.starts_with("  ok") && line.contains(step)),
            "no {step} in {output}"
        );
    }
    assert!(output.contains("All 6 steps passed in") && output.contains("nonic ctl loss 1%"), "{output}");
    let title = output.lines().next().unwrap();
    assert!(title.contains("RoCEv2") && title.contains("from 10.77.0.1 to 10.77.0.2"), "{title}");
    run(nonic().args(["demo", "wire", "--step", "atomics"])).exits(1).complains_of(&["--step", "verbs"]);
}

#[test]
fn without_the_right_to_make_networks_it_says_what_would_help() {
    // Neither root's rights nor a user namespace, of which this one may have no more.
    let forbidden = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin \
                     --inh-caps=-sys_admin \"$0\" \"$@\"";
    let kind = if is_root() { "-U" } else { "-rU" };
    let words = ["unshare", kind, "-r", "sh", "-c", forbidden];
    if !works(&[&words[..], &["true"]].concat()) {
        return skip("the right to make networks cannot be taken away here");
    }
    support::library();
    run(nonic_behind(&words).args(["demo", "wire"])).exits(1).complains_of(&[
        "the demo cannot start: two network namespaces are needed",
        "max_user_namespaces",
        "--privileged",
    ]);
}

#[test]
fn a_wire_that_is_forbidden_is_said() {
    if lacks_networks() {
        return;
    }
    support::library();
    let outcome = run(nonic().env("NONIC_WIRE", "off").args(["demo", "wire"])).exits(1);
    let failed = outcome.output.lines().find(|line| line.contains("FAILED")).expect("a failed step");
    assert!(failed.contains("connect"), "{}", outcome.output);
}

#[test]
fn whichever_process_is_killed_the_demo_says_so_and_ends() {
    if lacks_networks() {
        return;
    }
    support::demo_ends_with_either_process("wire");
}
