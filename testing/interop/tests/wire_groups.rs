//! Multicast groups with members in two network namespaces joined by a cable of Ethernet.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile_rdmacm, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::output::perftest;
use nonic_interop::port::{TcpPort, is_bound};
use nonic_interop::program::Running;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{program, shared_folder};

/// What Ethernet carries.
const ETHERNET: u32 = 1500;
/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;

/// A group of each family, beside the addresses of both sides.
const GROUPS: [(&str, usize); 2] = [("239.77.1.2", 0), ("ff15::77:2", 1)];

/// Two network namespaces.
struct Cable {
    near: Place,
    far: Place,
}

impl Cable {
    fn lay() -> Verdict<Self> {
        let [near, far] = Namespace::joined(ETHERNET)?;
        let place = |namespace| Ok(Place::prepare(AS_IT_COMES)?.inside(namespace));
        Ok(Self { near: place(near)?, far: place(far)? })
    }
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    // Each way once: mckey sleeps for seconds.
    for ((group, family), to_near) in GROUPS.into_iter().zip([true, false]) {
        let addresses = [Namespace::ADDRESSES[family], Namespace::FAR_ADDRESSES[family]];
        let receiver = if to_near { "first" } else { "second" };
        suite.test(
            format!("mckey in the {receiver} network hears at {group} what mckey says in the other"),
            move || heard(group, addresses, to_near),
        );
    }
    for (group, family) in GROUPS {
        suite.test(
            format!("each member of {group} gets each datagram once, and who has left gets none"),
            move || each_once(group, family),
        );
    }
    for (gid, index) in
        [("0:0:0:0:0:0:0:0:0:0:255:255:239:77:1:3", 1), ("255:21:0:0:0:0:0:0:0:0:0:0:0:0:7:7", 2)]
    {
        suite.test(format!("ib_send_bw sends datagrams to the group {gid} of another network"), move || {
            measured(gid, index)
        });
    }
    suite.test("members of two users on one host get what a third sends from another", two_users);
    suite.test("members that meet in a folder get each datagram once, without the wire", || met("off"));
    suite.test("members that meet in a folder get each datagram once, though the wire is there", || {
        met("auto")
    });
    for (who, is_met) in [("meets others", true), ("does not", false)] {
        suite.test(
            format!("of two members one meets others in a folder, and both hear once a sender that {who}"),
            move || partly_met(is_met),
        );
    }
    suite.test("with --wire off a group ends at its host, and nothing is opened", || {
        closed(Namespace::ADDRESSES[0], "off")
    });
    suite.test("a group that is joined by a loopback address opens nothing", || closed("127.0.0.1", "auto"));
    suite.run()
}

fn mckey(address: &str, group: &str, more: &[&str]) -> Verdict<Vec<String>> {
    // Line by line, or nothing is seen of it before its end.
    let mut words = vec![program("stdbuf")?.display().to_string(), "-oL".into()];
    words.extend([program("mckey")?.display().to_string(), "-b".into(), address.into()]);
    words.extend(["-m".into(), group.into()]);
    words.extend(more.iter().map(|word| (*word).to_owned()));
    Ok(words)
}

fn heard(group: &str, [near_address, far_address]: [&str; 2], to_near: bool) -> Verdict {
    let Cable { near, far } = Cable::lay()?;
    let ends = [(&near, near_address), (&far, far_address)];
    let [(there, receiving), (here, sending)] = if to_near { ends } else { [ends[1], ends[0]] };
    let mut receiver = there.nonic_run(mckey(receiving, group, &[])?)?.start()?;
    receiver.prints(|line| line.contains("receiving data transfers"))?;
    let sender = here.nonic_run(mckey(sending, group, &["-s"])?)?.run()?;
    if !sender.succeeded() {
        return failed(format!("{}the receiver:\n{}", sender.report(), receiver.report("then")));
    }
    let receiver = receiver.finish()?;
    if receiver.succeeded() && receiver.printed().contains("return status 0") {
        return Ok(());
    }
    failed(format!("the receiver has not heard all\n{}", receiver.report()))
}

/// One of `count` members, by its number; the first is to be started last, and sends.
fn member(place: &Place, address: &str, group: &str, numbers: [usize; 2]) -> Verdict<Running> {
    member_in(place, None, address, group, numbers)
}

/// The same, which meets others in a folder.
fn member_in(
    place: &Place,
    folder: Option<&str>,
    address: &str,
    group: &str,
    [name, count]: [usize; 2],
) -> Verdict<Running> {
    let binary = compile_rdmacm("wire_groups")?.display().to_string();
    let mut words: Vec<String> = Vec::new();
    if let Some(folder) = folder {
        words.extend(["env".into(), format!("NONIC_MEET={folder}")]);
    }
    words.extend([binary, address.into(), group.into(), name.to_string(), count.to_string()]);
    let mut member = place.nonic_run(words)?.start()?;
    member.prints(|line| line == "joined")?;
    Ok(member)
}

fn all_end_well(members: impl IntoIterator<Item = Running>) -> Verdict {
    members.into_iter().try_for_each(|member| judge(&member.finish()?).map(drop))
}

fn each_once(group: &str, family: usize) -> Verdict {
    let Cable { near, far } = Cable::lay()?;
    four_members(&near, &far, (group, family), [None; 4])
}

fn measured(gid: &str, index: u32) -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let [address, _] = Namespace::ADDRESSES;
    let (port_word, index) = (port.number().to_string(), index.to_string());
    let mut words = vec![program("ib_send_bw")?.display().to_string()];
    words.extend(["-c", "UD", "-g", "-M", gid, "-x", &index, "-p", &port_word].map(Into::into));
    // So few that the receiver has a receive for each.
    words.extend(["-F", "-n", "100", "-r", "256", "-s", "1024"].map(Into::into));
    let mut server = cable.near.nonic_run_with(&["--wire", "roce"], words.clone())?.start()?;
    server.listens_on(port.number())?;
    words.push(address.into());
    let client = cable.far.nonic_run_with(&["--wire", "roce"], words)?.run()?;
    let server = if client.succeeded() { server.finish()? } else { server.kill() };
    let wrong = |why: &str| {
        failed(format!("{why}\nthe client:\n{}the server:\n{}", client.report(), server.report()))
    };
    if !client.succeeded() || !server.succeeded() {
        return wrong("one of the sides failed");
    }
    match perftest(&server.stdout).as_slice() {
        [row] if row.is_positive() => Ok(()),
        rows => wrong(&format!("the server measured {rows:?}")),
    }
}

fn two_users() -> Verdict {
    let Cable { near, far } = Cable::lay()?;
    let (group, _) = GROUPS[0];
    // UDP port 4791 of an address is one user's.
    let Some(namespace) = near.namespace() else { return failed("it is in no namespace") };
    namespace.shell("IP address add 10.77.0.3/24 dev near")?;
    let first = member(&near, Namespace::ADDRESSES[0], group, [1, 3])?;
    let near = near.user(65533);
    let second = member(&near, "10.77.0.3", group, [2, 3])?;
    all_end_well([first, second, member(&far, Namespace::FAR_ADDRESSES[0], group, [0, 3])?])
}

/// All meet in a folder.
fn met(wire: &str) -> Verdict {
    let folder = shared_folder(&format!("groups-{wire}"))?.display().to_string();
    let Cable { near, far } = Cable::lay()?;
    let [near, far] =
        [near, far].map(|place| place.variable("NONIC_MEET", &folder).variable("NONIC_WIRE", wire));
    four_members(&near, &far, GROUPS[0], [None; 4])
}

/// One on each side does, and the sender does or does not.
fn partly_met(is_sender_met: bool) -> Verdict {
    let folder = shared_folder(&format!("groups-partly-{is_sender_met}"))?.display().to_string();
    let Cable { near, far } = Cable::lay()?;
    let folder = Some(folder.as_str());
    let far_folders = if is_sender_met { [None, folder] } else { [folder, None] };
    four_members(&near, &far, GROUPS[0], [None, folder, far_folders[0], far_folders[1]])
}

/// Two on each side, each of which may meet others in a folder; the last sends.
fn four_members(
    near: &Place,
    far: &Place,
    (group, family): (&str, usize),
    folders: [Option<&str>; 4],
) -> Verdict {
    let (here, there) = (Namespace::ADDRESSES[family], Namespace::FAR_ADDRESSES[family]);
    let places = [(near, here, 1), (near, here, 2), (far, there, 3), (far, there, 0)];
    let mut members = Vec::new();
    for ((place, address, name), folder) in places.into_iter().zip(folders) {
        members.push(member_in(place, folder, address, group, [name, 4])?);
    }
    all_end_well(members)
}

/// Within the host, and nothing is opened.
fn closed(address: &str, wire: &str) -> Verdict {
    // With one end of the cable gone the other has no address.
    let Cable { near, far: _far } = Cable::lay()?;
    let near = near.variable("NONIC_WIRE", wire);
    let (group, _) = GROUPS[0];
    let first = member(&near, address, group, [1, 2])?;
    if is_bound(first.id(), ROCE) {
        return failed(first.report("opened a socket"));
    }
    all_end_well([first, member(&near, address, group, [0, 2])?])
}
