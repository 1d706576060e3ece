//! `nonic bench --wire`: every figure it promises is there and above zero. How fast is not judged here.

mod support;

use serde_json::Value;
use support::{lacks_networks, lacks_processors, nonic, nonic_behind, open_folder, run, skip, works};

/// The goals, and what each is measured beside.
const GOALS: [(&str, &[&str]); 6] = [
    ("write 1 MiB, path MTU 4096", &["UDP in runs"]),
    ("send 8 B, half round trip", &["UDP ping-pong"]),
    ("send 8 B, beside its packets alone", &["the packets alone"]),
    ("write 8 B", &[]),
    ("write 1 MiB, 1 % lost each way", &["write"]),
    ("processor time for 1 GB written", &["TCP"]),
];
/// The one with losses.
const LOSSY: usize = 4;

#[test]
fn every_goal_of_the_wire_has_figures_beside_those_of_the_kernel() {
    if lacks_processors() || lacks_networks() {
        return;
    }
    support::library();
    let folder = open_folder();
    let file = folder.join("wire.json");
    let outcome = run(nonic().args(["bench", "--wire", "--quick", "--json"]).arg(&file)).exits(0);
    let text = std::fs::read_to_string(&file).expect("the results are written");
    let results: Value = serde_json::from_str(&text).expect("they are JSON");
    let goals = results["goals"].as_array().unwrap();
    assert_eq!(goals.len(), GOALS.len(), "{results:#}");
    for (goal, (name, beside)) in goals.iter().zip(GOALS) {
        assert_eq!(goal["name"], name);
        let probes = goal["probes"].as_array().unwrap();
        let others: Vec<_> = probes[1..].iter().map(|probe| probe["name"].as_str().unwrap()).collect();
        assert_eq!(others, beside);
        for probe in probes {
            let values = probe["figure"]["values"].as_array().unwrap();
            assert!(!values.is_empty() && values.iter().all(|value| value.as_f64() > Some(0.0)), "{goal:#}");
        }
        assert_ne!(goal["verdict"], "unknown");
        assert!(outcome.output.contains(name), "no {name} in {}", outcome.output);
    }
    assert!(
        results["sweep"].as_array().unwrap().is_empty() && results["failures"].as_array().unwrap().is_empty()
    );
    // Bytes that are lost are sent again, which takes time: nothing is measured twice.
    let rate = |goal: usize, probe: usize| goals[goal]["probes"][probe]["figure"]["values"][0].as_f64();
    assert!(rate(LOSSY, 0) < rate(LOSSY, 1), "{:#}", goals[LOSSY]);
}

#[test]
fn one_goal_can_be_chosen_and_what_is_not_of_the_wire_is_refused() {
    if lacks_processors() || lacks_networks() {
        return;
    }
    support::library();
    let output = run(nonic().args(["bench", "--wire", "--quick", "--goal", "send"])).exits(0).output;
    assert!(output.contains("send 8 B") && !output.contains("write 8 B"), "{output}");
    run(nonic().args(["bench", "--wire", "--tiers", "ring"])).exits(2).complains_of(&["--wire", "--tiers"]);
}

#[test]
fn without_the_right_to_make_networks_it_says_so() {
    let forbidden = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin \
                     --inh-caps=-sys_admin \"$0\" \"$@\"";
    let words = ["unshare", "-U", "-r", "sh", "-c", forbidden];
    if lacks_processors() || !works(&[&words[..], &["true"]].concat()) {
        return skip("the right to make networks cannot be taken away here");
    }
    support::library();
    let outcome = run(nonic_behind(&words).args(["bench", "--wire", "--quick"])).exits(1);
    outcome.complains_of(&["two network namespaces are needed"]);
}
