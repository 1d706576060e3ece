//! `nonic bench`: every figure it promises is there and above zero, whatever is installed. How fast is not judged here.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{
    assert_well_formed, lacks_processors, nonic, nonic_as_ordinary_user, nonic_behind, open_folder, run,
    skip, spawn,
};

/// Runs a short benchmark, and returns what it printed and what it wrote.
#[track_caller]
fn measured(command: &mut Command, folder: &Path, arguments: &[&str]) -> (String, Value) {
    support::library();
    let file = folder.join("results.json");
    command.args(["bench", "--quick", "--json"]).arg(&file).args(arguments);
    let output = run(command).exits(0).output;
    let text = std::fs::read_to_string(file).expect("the results are written");
    (output, serde_json::from_str(&text).expect("they are JSON"))
}

#[track_caller]
fn assert_figure(figure: &Value) {
    let values = figure["values"].as_array().unwrap();
    assert!(!values.is_empty(), "no value in {figure}");
    assert!(values.iter().all(|value| value.as_f64().is_some_and(|value| value > 0.0)), "{figure}");
    let summary = ["min", "median", "max"].map(|name| figure["summary"][name].as_f64().unwrap());
    assert!(summary.is_sorted(), "{figure}");
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

#[test]
fn every_operation_on_every_tier_has_figures_beside_those_of_the_machine() {
    if lacks_processors() {
        return;
    }
    let folder = open_folder();
    let picture = folder.join("picture.svg");
    let (output, results) = measured(
        &mut nonic_as_ordinary_user(),
        &folder,
        &["--no-peers", "--label", "abc123", "--svg", picture.to_str().unwrap()],
    );
    let rows = results["sweep"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    for row in rows {
        assert_figure(&row["figure"]);
        let reference = &row["beside"][0];
        assert_figure(&reference["figure"]);
        assert!(reference["ratio"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0), "{row:#}");
        assert!(row["cell"]["line_ns"][0].as_f64().is_some_and(|line| line > 0.0), "{row:#}");
        let bytes = row["bytes"].as_u64().unwrap();
        seen.insert((word(row, "verb"), word(row, "measure"), word(row, "tier"), bytes));
    }
    let mut expected = BTreeSet::new();
    for tier in ["auto", "kernel", "ring"] {
        for size in [8, 65536] {
            for verb in ["write", "read", "send"] {
                expected.extend([(verb, "latency", tier, size), (verb, "rate", tier, size)]);
            }
        }
        expected.insert(("send", "event_latency", tier, 8));
        expected.extend(["latency", "rate", "contention"].map(|measure| ("atomics", measure, tier, 8)));
    }
    assert_eq!(seen, expected);
    assert_eq!(rows.len(), expected.len(), "each comparison is made once");
    assert_eq!(results["label"], "abc123");
    assert_ne!(results["machine"]["processors"][0], results["machine"]["processors"][1]);

    for words in ["p99.9", "cache line", "process_vm_writev", "bare atomic, contended", "eventfd"] {
        assert!(output.contains(words), "no {words:?} in {output}");
    }
    assert!(!output.contains('\x1b'), "{output:?}");
    assert!(!output.contains("UCX"), "{output}");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert_well_formed(&picture);
    for words in ["nonic write", "nonic send", "nonic read", "non-temporal copy", "abc123", "RDMA read"] {
        assert!(picture.contains(words), "no {words:?} in {picture}");
    }
    assert!(!picture.contains("NaN") && !picture.contains("inf\""), "{picture}");
}

#[test]
fn programs_of_others_are_measured_where_they_are_installed() {
    if lacks_processors() {
        return;
    }
    let folder = open_folder();
    let arguments = ["--only", "send", "--tiers", "auto", "--sizes", "8"];
    let (output, results) = measured(&mut nonic_as_ordinary_user(), &folder, &arguments);
    let installed = |suite: &str| {
        let programs = results["programs"].as_array().unwrap();
        programs.iter().any(|program| program["suite"] == suite && !program["version"].is_null())
    };
    let latency = &results["sweep"][0];
    for (suite, name, package) in
        [("ucx", "UCX tag_lat", "ucx-utils"), ("libfabric", "libfabric shm", "libfabric-bin")]
    {
        let beside = latency["beside"].as_array().unwrap();
        let theirs = beside.iter().find(|theirs| theirs["name"] == name).unwrap();
        if installed(suite) {
            assert_figure(&theirs["figure"]);
            assert!(output.contains(name), "{output}");
        } else {
            assert!(output.contains(&format!("apt-get install {package}")), "{output}");
            skip(&format!("{package} is not installed, so nothing of it was measured"));
        }
    }
}

#[test]
fn what_is_not_installed_is_left_out_and_the_package_that_brings_it_is_named() {
    if lacks_processors() {
        return;
    }
    let folder = open_folder();
    // With nothing on the path but what starts the command itself.
    let mut command = nonic();
    command.env("PATH", &*folder);
    let arguments = ["--only", "write", "--tiers", "auto", "--sizes", "8"];
    let (output, results) = measured(&mut command, &folder, &arguments);
    for package in ["ucx-utils", "libfabric-bin", "perftest"] {
        assert!(output.contains(&format!("apt-get install {package}")), "no {package} in {output}");
    }
    let rows = results["sweep"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    rows.iter().for_each(|row| assert_figure(&row["figure"]));
    assert!(results["programs"].as_array().unwrap().iter().all(|program| program["version"].is_null()));
}

#[test]
fn goals_are_measured_with_this_command_alone_where_perftest_is_not_wanted() {
    if lacks_processors() {
        return;
    }
    let folder = open_folder();
    let table = folder.join("goals.md");
    let (output, results) = measured(
        &mut nonic_as_ordinary_user(),
        &folder,
        &["--goals", "--no-sweep", "--no-peers", "--markdown", table.to_str().unwrap()],
    );
    let goals = results["goals"].as_array().unwrap();
    let table = std::fs::read_to_string(table).unwrap();
    for name in [
        "ib_write_lat 8 B",
        "ib_read_lat 8 B",
        "ib_atomic_lat",
        "ib_send_lat -e 8 B",
        "ib_write_bw 64 KiB",
        "ib_write_bw 8 B",
        "fetch and add contended by both processes",
        "ten pairs on two cores, writes of 64 KiB",
        "ten pairs on two cores, sends of 8 B",
    ] {
        let goal = goals.iter().find(|goal| goal["name"] == name).expect(name);
        assert_figure(&goal["probes"][0]["figure"]);
        assert!(["aim", "pass", "miss"].contains(&word(goal, "verdict")), "{goal:#}");
        assert!(output.contains(name) && table.contains(&format!("| {name} |")), "{name}");
    }
    // What is measured against a program that is not wanted stays open, and is never said to be kept.
    let send = goals.iter().find(|goal| goal["name"] == "ib_send_lat 8 B").unwrap();
    assert_figure(&send["probes"][0]["figure"]);
    assert_eq!(send["verdict"], "unknown");
}

#[test]
fn a_benchmark_that_is_killed_leaves_no_process_behind() {
    if lacks_processors() {
        return;
    }
    support::library();
    let mut child =
        spawn(nonic().args(["bench", "--only", "write"]).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap(); // The processes are there, and measure.
    let list = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let children: Vec<i32> = list.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(children.len() >= 2, "{line}: {children:?}");
    let children: Vec<_> = children.into_iter().filter_map(rustix::process::Pid::from_raw).collect();
    let open = |pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    let open: Vec<_> = children.into_iter().filter_map(|pid| open(pid).ok()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for process in open {
        let mut ends = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut ends, Some(&patience)).unwrap(), 1, "a process lives on");
    }
}

#[test]
fn one_processor_is_too_few_and_that_is_said() {
    support::library();
    let outcome = run(nonic_behind(&["taskset", "-c", "0"]).args(["bench", "--quick"])).exits(1);
    outcome.complains_of(&["two processors are needed", "[0]"]);
}

#[test]
fn processors_that_are_not_there_sizes_and_verbs_that_make_no_sense_are_refused() {
    support::library();
    run(nonic().args(["bench", "--processors", "0,100000"])).exits(1).complains_of(&["100000"]);
    run(nonic().args(["bench", "--sizes", "0"])).exits(2).complains_of(&["--sizes"]);
    run(nonic().args(["bench", "--sizes", "1G"])).exits(2).complains_of(&["64M"]);
    run(nonic().args(["bench", "--only", "dance"])).exits(2).complains_of(&["dance", "atomics"]);
    run(nonic().args(["bench", "--no-sweep", "--svg", "x"])).exits(2).complains_of(&["--svg"]);
}

#[test]
fn a_library_without_a_device_and_a_file_that_cannot_be_written_are_said() {
    if lacks_processors() {
        return;
    }
    support::library();
    let quick = ["bench", "--quick", "--no-peers", "--only", "write", "--tiers", "auto", "--sizes", "8"];
    run(nonic().env("NONIC_DEVICES", "0").args(quick)).exits(1).complains_of(&["no device"]);
    let outcome = run(nonic().args(quick).args(["--json", "/nowhere/results.json"])).exits(1);
    outcome.complains_of(&["/nowhere/results.json", "cannot be written"]);
}
