//! `nonic bench-scale`: every figure is there at every number, and nothing is left behind. How cost grows is not judged here.

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use support::{assert_well_formed, lacks_processors, nonic, nonic_as_ordinary_user, open_folder, run, spawn};

/// The parts, each with its figures.
const PARTS: [(&str, &[&str]); 7] = [
    (
        "links",
        &[
            "empty poll",
            "send 8 B, half a round trip",
            "memory of a link where all end",
            "memory of a link at its other end",
        ],
    ),
    (
        "threads",
        &[
            "write 8 B within a process, own queue pairs",
            "write 4 KiB within a process, own queue pairs",
            "send 8 B within a process, own queue pairs",
            "write 8 B within a process, one queue pair",
            "write 4 KiB within a process, one queue pair",
            "send 8 B within a process, one queue pair",
            "write 8 B to another process, own queue pairs",
            "write 4 KiB to another process, own queue pairs",
            "send 8 B to another process, own queue pairs",
            "write 8 B to another process, one queue pair",
            "write 4 KiB to another process, one queue pair",
            "send 8 B to another process, one queue pair",
        ],
    ),
    (
        "queue-pairs",
        &[
            "write of 8 B, posted and polled on each in turn",
            "empty poll",
            "memory of a queue pair, at who posts",
            "memory of a queue pair, at who is written to",
        ],
    ),
    (
        "regions",
        &[
            "registering a page",
            "deregistering it",
            "changing its rights",
            "write of 8 B, posted and polled to each in turn",
            "a line of memory of each in an order by chance, without a device",
            "memory of a region, in the table that peers see",
        ],
    ),
    (
        "windows",
        &[
            "binding a window of type 2",
            "invalidating it",
            "write of 8 B, posted and polled to each in turn",
            "memory of a window and its region, in the table",
            "slowest of 1,000 writes of 8 B, through a window beside binds",
        ],
    ),
    ("connections", &["connecting an endpoint of SCIF"]),
    (
        "mesh",
        &[
            "all connected, a message through everywhere",
            "sends of 1 KiB, all together",
            "copies of 1 KiB through bare rings, without a device",
        ],
    ),
];

#[track_caller]
fn assert_measured(series: &Value) {
    let points = series["points"].as_array().unwrap();
    assert!(points.len() >= 2, "{series}");
    for point in points {
        assert!(point["median"].as_f64().is_some_and(f64::is_finite), "{point} of {series}");
        assert_eq!(point["values"].as_array().unwrap().len(), 1, "one round: {series}");
    }
    assert!(points[0]["number"].as_u64() < points[1]["number"].as_u64(), "{series}");
}

#[test]
fn every_figure_is_measured_at_every_number_and_told_in_a_table_a_file_and_a_picture() {
    if lacks_processors() {
        return;
    }
    support::library();
    let folder = open_folder();
    for (part, names) in PARTS {
        let [json, svg] = ["json", "svg"].map(|kind| folder.join(format!("{part}.{kind}")));
        let mut command = nonic_as_ordinary_user();
        command.args(["bench-scale", "--quick", "--label", "abc123", "--only", part]);
        let outcome = run(command.arg("--json").arg(&json).arg("--svg").arg(&svg)).exits(0);
        let results: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        let picture = std::fs::read_to_string(svg).unwrap();
        assert_well_formed(&picture);
        assert!(!picture.contains("NaN") && !picture.contains("inf\""), "{picture}");
        let series = results["series"].as_array().unwrap();
        let measured: Vec<_> = series.iter().map(|series| series["name"].as_str().unwrap()).collect();
        assert_eq!(measured, names);
        for (series, name) in series.iter().zip(names) {
            assert_eq!(series["part"], part);
            assert_measured(series);
            for words in name.split(", ") {
                assert!(picture.contains(&format!(">{words}<")), "no {words} in {picture}");
            }
            assert!(outcome.output.contains(&format!("\n{name}; ")), "no {name} in {}", outcome.output);
        }
        assert_eq!(results["label"], "abc123");
        assert!(picture.contains("abc123"), "{picture}");
        assert!(!outcome.output.contains('\x1b'), "{}", outcome.output);
    }
}

/// All processes that a process has started, and those that these have started.
fn descendants(pid: i32) -> Vec<i32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<i32> = list.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let further: Vec<_> = children.iter().flat_map(|child| descendants(*child)).collect();
    [children, further].concat()
}

#[test]
fn when_it_is_killed_so_are_the_processes_it_started_and_those_that_they_started() {
    if lacks_processors() {
        return;
    }
    support::library();
    let arguments = ["bench-scale", "--quick", "--only", "links", "--rounds", "100"];
    let mut child = spawn(nonic().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()));
    let begun = Instant::now();
    // Three that are measured, five with an idle link, and a partner now and then.
    let found = loop {
        let found = descendants(child.id() as i32);
        if found.len() >= 8 {
            break found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "only {found:?} have been started");
        assert!(child.try_wait().unwrap().is_none(), "it has ended, and {found:?} were there");
        std::thread::yield_now();
    };
    let open = |pid| pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty());
    let open: Vec<_> = found.into_iter().filter_map(|pid| open(pid).ok()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for process in open {
        let mut ends = [PollFd::new(&process, PollFlags::IN)];
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(poll(&mut ends, Some(&patience)).unwrap(), 1, "a process lives on");
    }
}

#[test]
fn more_idle_links_than_there_are_descriptors_for_are_left_out_and_that_is_said() {
    if lacks_processors() {
        return;
    }
    support::library();
    let mut command = support::nonic_behind(&["prlimit", "--nofile=140:140"]);
    let outcome = run(command.args(["bench-scale", "--quick", "--only", "links"])).exits(1);
    assert!(outcome.output.contains("4 idle links need 160 descriptors"), "{outcome:#?}");
    assert!(outcome.output.contains("may have 140"), "{outcome:#?}");
}

#[test]
fn a_library_without_a_device_a_part_that_is_none_and_a_file_that_cannot_be_written_are_said() {
    if lacks_processors() {
        return;
    }
    support::library();
    let quick = ["bench-scale", "--quick", "--only", "links"];
    let outcome = run(nonic().env("NONIC_DEVICES", "0").args(quick)).exits(1);
    assert!(outcome.output.contains("no device"), "{outcome:#?}");
    run(nonic().args(["bench-scale", "--only", "dance"])).exits(2).complains_of(&["dance", "links"]);
    let outcome = run(nonic().args(quick).args(["--json", "/nowhere/scale.json"])).exits(1);
    outcome.complains_of(&["/nowhere/scale.json", "cannot be written"]);
}
