//! `ibv_devices`, `ibv_devinfo`, `ibv_asyncwatch`: what a person types first.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, environments};
use nonic_interop::output::complaints;
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{Toolbox, program};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for environment in environments().iter() {
        let (environment, name) = (*environment, environment.name);
        suite
            .test(format!("ibv_devices lists nonic0 with its GUID, {name}"), move || one_device(environment));
        suite
            .test(format!("ibv_devinfo -v describes an active port, {name}"), move || described(environment));
    }
    suite.test("ibv_devices lists as many devices as were asked for", three_devices);
    suite.test("ibv_devinfo -d picks a device by its name, and only that", second_device);
    suite.test("ibv_devinfo -d of a device that does not exist fails", no_such_device);
    suite.test("ibv_devinfo shows an InfiniBand port with a LID and a GID", || linked(Link::InfiniBand));
    suite.test("ibv_devinfo shows an Ethernet port with a GID", || linked(Link::Ethernet));
    suite.test("every program of a shell that has taken nonic's environment uses it", shell);
    suite.test("ibv_asyncwatch opens the device and watches until it is killed", watched);
    suite.run()
}

/// Of one that has given it back none does.
fn shell() -> Verdict {
    let nonic = &Toolbox::find()?.nonic.display().to_string();
    let devices = program("ibv_devices")?.display().to_string();
    let script = format!(
        "eval \"$({nonic} env --device-name shell)\" && {devices} && eval \"$({nonic} env --off)\" && echo given back && \
         {devices} 2>&1"
    );
    let finished = Place::prepare(AS_IT_COMES)?.bare(["/bin/sh", "-c", &script])?.run()?;
    let text = finished.printed();
    match text.split_once("given back") {
        Some((taken, back)) if taken.contains("shell0") && !back.contains("shell0") => Ok(()),
        _ => failed(format!("the devices are not there, or still there\n{}", finished.report())),
    }
}

fn run(environment: Environment, options: &[&str], name: &str, arguments: &[&str]) -> Verdict<Finished> {
    let mut words = vec![program(name)?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    Place::prepare(environment)?.nonic_run_with(options, words)?.run()
}

fn run_cleanly(
    environment: Environment,
    options: &[&str],
    name: &str,
    arguments: &[&str],
) -> Verdict<String> {
    let finished = run(environment, options, name, arguments)?;
    if !finished.succeeded() {
        return failed(format!("{name} ended with {}\n{}", finished.status(), finished.report()));
    }
    // `bad_pkey_cntr` is a counter, and `not supported` an honest answer.
    let harmless =
        |line: &&&str| !line.contains("bad_pkey_cntr") && !line.trim_end().ends_with("not supported");
    let text = finished.printed();
    match complaints(&text).iter().find(harmless) {
        Some(line) => failed(format!("{name} complains: {line}\n{}", finished.report())),
        None => Ok(finished.stdout),
    }
}

/// The devices that `ibv_devices` prints: name and node GUID, below a line of dashes.
fn listed(text: &str) -> Vec<(String, u64)> {
    text.lines()
        .skip_while(|line| !line.contains("----"))
        .skip(1)
        .filter_map(|line| {
            let (name, guid) = line.trim().split_once(char::is_whitespace)?;
            Some((name.to_owned(), u64::from_str_radix(guid.trim(), 16).ok()?))
        })
        .collect()
}

fn one_device(environment: Environment) -> Verdict {
    let text = run_cleanly(environment, &[], "ibv_devices", &[])?;
    match listed(&text).as_slice() {
        [(name, guid)] if name == "nonic0" && *guid != 0 => Ok(()),
        other => failed(format!("expected nonic0 with a GUID, got {other:?} from\n{text}")),
    }
}

fn three_devices() -> Verdict {
    let text = run_cleanly(AS_IT_COMES, &["--devices", "3"], "ibv_devices", &[])?;
    let devices = listed(&text);
    let names: Vec<&str> = devices.iter().map(|(name, _)| name.as_str()).collect();
    if names != ["nonic0", "nonic1", "nonic2"] {
        return failed(format!("expected nonic0 to nonic2, got {names:?} from\n{text}"));
    }
    if devices[0].1 == devices[1].1 || devices[1].1 == devices[2].1 || devices[0].1 == devices[2].1 {
        return failed(format!("each device needs a GUID of its own:\n{text}"));
    }
    Ok(())
}

/// The value of `key:  value` lines.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix(':').map(str::trim))
}

fn expect(text: &str, key: &str, accept: impl Fn(&str) -> bool) -> Verdict {
    match value(text, key) {
        Some(value) if accept(value) => Ok(()),
        Some(value) => failed(format!("{key} is {value:?} in\n{text}")),
        None => failed(format!("{key} is missing in\n{text}")),
    }
}

fn positive(value: &str) -> bool {
    value.parse::<u64>().is_ok_and(|number| number > 0)
}

fn described(environment: Environment) -> Verdict {
    let text = run_cleanly(environment, &[], "ibv_devinfo", &["-v"])?;
    expect(&text, "hca_id", |value| value == "nonic0")?;
    expect(&text, "transport", |value| value == "InfiniBand (0)")?;
    expect(&text, "fw_ver", |value| !value.is_empty())?;
    expect(&text, "node_guid", |value| value != "0000:0000:0000:0000")?;
    expect(&text, "sys_image_guid", |value| value != "0000:0000:0000:0000")?;
    expect(&text, "vendor_id", |value| value != "0x0000" && value != "0x000000")?;
    expect(&text, "phys_port_cnt", |value| value == "1")?;
    expect(&text, "max_mr_size", |value| value != "0x0")?;
    for limit in
        ["max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe", "max_mr", "max_pd", "max_ah", "max_srq"]
    {
        expect(&text, limit, positive)?;
    }
    for limit in ["max_qp_rd_atom", "max_qp_init_rd_atom", "max_srq_wr", "max_srq_sge", "max_pkeys"] {
        expect(&text, limit, positive)?;
    }
    for capability in ["SRQ_RESIZE", "MEM_WINDOW", "MEM_WINDOW_TYPE_2B"] {
        if !text.lines().any(|line| line.trim() == capability) {
            return failed(format!("the capability {capability} is missing in\n{text}"));
        }
    }
    expect(&text, "state", |value| value == "PORT_ACTIVE (4)")?;
    expect(&text, "max_mtu", |value| value == "4096 (5)")?;
    expect(&text, "phys_state", |value| value == "LINK_UP (5)")?;
    expect(&text, "GID[  0]", |value| !value.is_empty())?;
    expect(&text, "maximum available device memory", |value| value == "67108864Bytes")
}

fn second_device() -> Verdict {
    let text = run_cleanly(AS_IT_COMES, &["--devices", "2"], "ibv_devinfo", &["-d", "nonic1"])?;
    expect(&text, "hca_id", |value| value == "nonic1")?;
    if text.contains("nonic0") {
        return failed(format!("nonic0 was not asked for:\n{text}"));
    }
    Ok(())
}

fn no_such_device() -> Verdict {
    let finished = run(AS_IT_COMES, &[], "ibv_devinfo", &["-d", "nonic7"])?;
    if finished.succeeded() || !finished.printed().contains("nonic7") {
        return failed(format!("expected a failure that names nonic7\n{}", finished.report()));
    }
    Ok(())
}

fn linked(link: Link) -> Verdict {
    let environment = Environment { link: Some(link), ..AS_IT_COMES };
    let text = run_cleanly(environment, &[], "ibv_devinfo", &["-v"])?;
    expect(&text, "GID[  0]", |value| !value.starts_with("0000:0000:0000:0000:0000:0000:0000:0000"))?;
    match link {
        Link::InfiniBand => {
            expect(&text, "link_layer", |value| value == "InfiniBand")?;
            expect(&text, "port_lid", positive)
        }
        Link::Ethernet => expect(&text, "link_layer", |value| value == "Ethernet"),
    }
}

fn watched() -> Verdict {
    let words = [program("ibv_asyncwatch")?.display().to_string()];
    let mut running = Place::prepare(AS_IT_COMES)?.nonic_run(words)?.start()?;
    let first = running.prints(|_| true)?;
    let descriptor = first.strip_prefix("nonic0: async event FD ");
    if descriptor.is_none_or(|number| number.parse::<u32>().is_err()) {
        return failed(format!("expected `nonic0: async event FD N`, got {first:?}"));
    }
    if running.has_ended() {
        return failed(format!("it should watch until it is killed\n{}", running.report("ended")));
    }
    let finished = running.kill();
    if finished.stdout.lines().count() != 1 {
        return failed(format!("nothing happened, and yet there were events\n{}", finished.report()));
    }
    Ok(())
}
