//! Devices that are changed while programs run: by `nonic ctl` from outside, and by a file of `NONIC_FAULTS`.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use nonic_interop::c_program::{compile, compile_rdmacm, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, ways};
use nonic_interop::namespace::Namespace;
use nonic_interop::program::{Finished, Running};
use nonic_interop::suite::{Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::{ORDINARY_USER, Toolbox, is_root, program, scratch};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for environment in ways() {
        suite.test(
            format!(
                "a changed device is what it says it is, and nothing is lost by it, {}",
                environment.name
            ),
            move || changed(environment, &[]),
        );
    }
    suite.test("so it is on an Ethernet port", || {
        changed(Environment { link: Some(Link::Ethernet), ..AS_IT_COMES }, &[])
    });
    suite.test("so it is under a container's filter", || {
        changed(AS_IT_COMES, &[compile("deny")?.display().to_string(), "container".into()])
    });
    suite.test("identifiers hear of a device that fails and of an address that goes", || {
        let program = compile_rdmacm("changes_rdmacm")?.display().to_string();
        // Where loopback is all there is, its addresses are in the GID table.
        judge(&place(AS_IT_COMES)?.inside(Namespace::with_only_lo()?).nonic_run([program])?.run()?).map(drop)
    });
    suite.test("a file of faults is followed to the end, and named where it makes no sense", faults);
    suite.test("ibv_asyncwatch prints what is changed", asyncwatch);
    suite.test("all processes of a user in a network are changed together", everybody);
    suite.test("another user's process is not changed", strangers);
    suite.run()
}

fn nonic() -> Verdict<String> {
    Ok(Toolbox::find()?.nonic.display().to_string())
}

/// Where C programs find the command.
fn place(environment: Environment) -> Verdict<Place> {
    Ok(Place::prepare(environment)?.variable("NONIC", &nonic()?))
}

fn changed(environment: Environment, wrapper: &[String]) -> Verdict {
    let program = compile("changes")?.display().to_string();
    judge(&place(environment)?.wrapped(wrapper.to_vec()).nonic_run([program])?.run()?).map(drop)
}

/// A file that every user may read.
fn file(name: &str, text: &str) -> Verdict<PathBuf> {
    let path = scratch().join(name);
    let made =
        fs::write(&path, text).and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(0o644)));
    match made {
        Ok(()) => Ok(path),
        Err(error) => failed(format!("{}: {error}", path.display())),
    }
}

/// The port flaps while a pingpong runs, over and over, and it does not notice but for the time that passes.
fn faults() -> Verdict {
    let flaps: String =
        (0..12).map(|n| format!("{}ms port down\n{}ms port up\n", n * 25, n * 25 + 1)).collect();
    let flaps = file("faults.flaps", &format!("# a bad cable\n{flaps}"))?;
    let seen = file("faults.seen", "0s lid 0x123\n0s port down\n0s gid remove 0\n")?;
    let devinfo = [program("ibv_devinfo")?.display().to_string(), "-v".into()];
    let place = place(AS_IT_COMES)?;
    let option = format!("--faults={}", seen.display());
    let finished = place.nonic_run_with(&[&option], devinfo.clone())?.run()?;
    for shown in ["PORT_DOWN (1)", "port_lid:\t\t291", "POLLING (2)"] {
        if !finished.stdout.contains(shown) {
            return failed(format!("it does not show {shown}\n{}", finished.report()));
        }
    }
    let pair = nonic_interop::pair::Pair::run(
        &place.variable("NONIC_FAULTS", &flaps.display().to_string()),
        "ibv_rc_pingpong",
        &["-n".into(), "20000".into(), "-c".into()],
    )?;
    pair.is_clean()?;
    let nonsense = file("faults.nonsense", "10ms port down\n20ms port sideways\n")?;
    let variable = Place::prepare(AS_IT_COMES)?.variable("NONIC_FAULTS", &nonsense.display().to_string());
    let finished = variable.nonic_run(devinfo)?.run()?;
    if !finished.stderr.contains("line 2") || !finished.stdout.contains("PORT_ACTIVE (4)") {
        return failed(format!(
            "the line is not named, or half of the file was followed\n{}",
            finished.report()
        ));
    }
    Ok(())
}

/// A program of the distribution that has no queue pair, and waits for events: when it does.
fn watch(place: &Place) -> Verdict<Running> {
    let mut running = place.nonic_run([program("ibv_asyncwatch")?.display().to_string()])?.start()?;
    running.prints(|line| line.contains("async event FD"))?;
    Ok(running)
}

fn ctl(place: &Place, words: &str) -> Verdict<Finished> {
    let words = words.split(' ').map(str::to_owned);
    place.bare([nonic()?, "ctl".to_owned()].into_iter().chain(words))?.run()
}

/// It exits with this status.
fn exits(finished: &Finished, status: i32) -> Verdict {
    if finished.status() == format!("exit status {status}") || status == 0 && finished.succeeded() {
        return Ok(());
    }
    failed(format!("it does not exit with {status}\n{}", finished.report()))
}

fn asyncwatch() -> Verdict {
    let place = place(AS_IT_COMES)?;
    let mut running = watch(&place)?;
    let pid = running.id();
    for (words, event) in [
        ("port down", "IBV_EVENT_PORT_ERR"),
        ("port up", "IBV_EVENT_PORT_ACTIVE"),
        ("gid add fe80::9", "IBV_EVENT_GID_CHANGE"),
        ("lid 9", "IBV_EVENT_LID_CHANGE"),
        ("pkey remove 0", "IBV_EVENT_PKEY_CHANGE"),
        ("client-reregister", "IBV_EVENT_CLIENT_REREGISTER"),
        ("sm-change", "IBV_EVENT_SM_CHANGE"),
        ("fatal", "IBV_EVENT_DEVICE_FATAL"),
    ] {
        exits(&ctl(&place, &format!("--pid {pid} {words}"))?, 0)?;
        running.prints(|line| line.contains(event))?;
    }
    let told = place.bare([nonic()?, "doctor".into(), "--pid".into(), pid.to_string()])?.run()?;
    for shown in ["lid 0x9 by process", &format!("of user {ORDINARY_USER}")] {
        if !told.stdout.contains(shown) {
            return failed(format!("the doctor does not tell of {shown}\n{}", told.report()));
        }
    }
    running.kill();
    Ok(())
}

fn everybody() -> Verdict {
    let network = || Place::prepare(Environment { only_lo: true, ..AS_IT_COMES });
    let (here, elsewhere) = (network()?, network()?);
    exits(&ctl(&here, "--all port down")?, 1)?;
    let [mut one, mut other, mut apart] = [watch(&here)?, watch(&here)?, watch(&elsewhere)?];
    exits(&ctl(&here, "--all port down")?, 0)?;
    for running in [&mut one, &mut other] {
        running.prints(|line| line.contains("IBV_EVENT_PORT_ERR"))?;
    }
    // The first event that this one gets is its own.
    exits(&ctl(&elsewhere, "--all lid 9")?, 0)?;
    let line = apart.prints(|line| line.contains("event_type"))?;
    if !line.contains("IBV_EVENT_LID_CHANGE") {
        return failed(format!("a process of another network was changed: {line}"));
    }
    let _ = [one, other, apart].map(Running::kill);
    Ok(())
}

fn strangers() -> Verdict {
    if !is_root() {
        return skipped("another user is only root's to be");
    }
    let place = place(AS_IT_COMES)?;
    let mut running = watch(&place)?;
    let pid = running.id();
    let stranger = Place::prepare(AS_IT_COMES)?.user(ORDINARY_USER - 1);
    let refused = ctl(&stranger, &format!("--pid {pid} port down"))?;
    exits(&refused, 1)?;
    if !refused.stderr.contains("belongs to user") {
        return failed(format!("it does not say why\n{}", refused.report()));
    }
    // Root may, and what it does is the first that happens.
    exits(&ctl(&Place::prepare(AS_IT_COMES)?.user(0), &format!("--pid {pid} lid 9"))?, 0)?;
    let line = running.prints(|line| line.contains("event_type"))?;
    if !line.contains("IBV_EVENT_LID_CHANGE") {
        return failed(format!("a stranger has changed it: {line}"));
    }
    running.kill();
    Ok(())
}
