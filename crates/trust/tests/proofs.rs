//! Who can answer and who cannot, between processes of different users and namespaces. The cases with other users need
//! root, and say so without it.

use nonic_second_process::{SecondProcess, role, say, told};
use nonic_sys::{AsFd, PacketSocket, Received, listen_abstract, wait_readable};
use nonic_trust::{Answer, Challenge, Peer, Question, Silence, answer};

/// Becomes what the first word of `role` says, then answers what it is asked on the socket named by the second.
fn answerer() {
    let Some(role) = role() else { return };
    let (who, name) = role.split_once(' ').unwrap();
    become_somebody(who);
    let socket = PacketSocket::connect_abstract(name).unwrap();
    let mut bytes = [0; 64];
    assert!(wait_readable(socket.as_fd(), None));
    let Received::Message(12, _) = socket.receive(&mut bytes) else { panic!("no question") };
    let question = Question {
        address: u64::from_le_bytes(bytes[..8].try_into().unwrap()),
        descriptor: u32::from_le_bytes(bytes[8..12].try_into().unwrap()),
    };
    match answer(&question, &Peer::of(socket.as_fd()).unwrap()) {
        Ok((answer, route)) => {
            socket.send(&answer.0, &[]).unwrap();
            say(&format!("{route:?}"));
        }
        Err(silence) => say(&format!("{silence:?}")),
    }
    told();
}

fn become_somebody(who: &str) {
    // SAFETY: these calls change who this process is and touch no memory.
    unsafe {
        match who {
            "same" => {}
            // Root by number, allowed nothing.
            "bare-root" => {
                for capability in 0..64 {
                    libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
                }
                let header = [0x2008_0522u32, 0];
                let none = [0u32; 6];
                assert_eq!(libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()), 0);
            }
            // Only a process of one thread may.
            "unmapped" => go_on_in_child(|| assert_eq!(libc::unshare(libc::CLONE_NEWUSER), 0)),
            "other-pids" => {
                assert_eq!(libc::unshare(libc::CLONE_NEWPID), 0);
                go_on_in_child(|| {});
            }
            number => {
                let user = number.parse().unwrap();
                assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
                assert_eq!(libc::setresgid(user, user, user), 0);
                assert_eq!(libc::setresuid(user, user, user), 0);
                libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            }
        }
    }
}

fn go_on_in_child(change: impl FnOnce()) {
    // SAFETY: the child goes on alone and uses nothing that another thread could have locked but standard output, which is
    // this thread's; its parent only waits for it.
    unsafe {
        match libc::fork() {
            0 => change(),
            child => {
                libc::waitpid(child, std::ptr::null_mut(), 0);
                std::process::exit(0);
            }
        }
    }
}

/// What `who` says when it is asked by this process, and whether that is the answer.
fn ask(test: &str, who: &str, change: impl FnOnce(Question) -> Question) -> (String, bool) {
    let name = format!("nonic-trust.test/{:x}", nonic_sys::random_u64());
    let listener = listen_abstract(&name).unwrap();
    let mut other = SecondProcess::start(test, &format!("{who} {name}"), &[]);
    assert!(wait_readable(listener.as_fd(), None));
    let socket = listener.accept().unwrap();
    let peer = Peer::of(socket.as_fd()).unwrap();
    let challenge = Challenge::new(peer.credentials());
    let question = change(challenge.question());
    let mut bytes = question.address.to_le_bytes().to_vec();
    bytes.extend(question.descriptor.to_le_bytes());
    socket.send(&bytes, &[]).unwrap();
    let said = other.hear();
    let mut bytes = [0; 16];
    let right = match socket.receive(&mut bytes) {
        Received::Message(16, _) => challenge.is_answered_by(&Answer(bytes)),
        _ => false,
    };
    (said, right)
}

fn is_root() -> bool {
    if nonic_sys::effective_user() == 0 {
        return true;
    }
    println!("SKIPPED: who can prove that he may: other users need root");
    false
}

#[test]
fn a_process_of_the_same_user_answers_by_a_descriptor_and_where_there_is_none_out_of_memory() {
    const NAME: &str =
        "a_process_of_the_same_user_answers_by_a_descriptor_and_where_there_is_none_out_of_memory";
    if role().is_some() {
        return answerer();
    }
    assert_eq!(ask(NAME, "same", |question| question), ("Descriptor".into(), true));
    let (said, right) = ask(NAME, "same", |question| Question { descriptor: u32::MAX, ..question });
    assert_eq!((said.as_str(), right), ("Memory", true));
}

#[test]
fn what_was_not_meant_for_it_is_not_answered() {
    const NAME: &str = "what_was_not_meant_for_it_is_not_answered";
    if role().is_some() {
        return answerer();
    }
    // Another peer's challenge, and memory that never was one: nothing of either is said.
    let own = nonic_sys::Credentials { pid: std::process::id() as i32, uid: nonic_sys::effective_user() };
    let others = Challenge::new(own);
    let not_meant = (format!("{:?}", Silence::NotMeant), false);
    assert_eq!(ask(NAME, "same", |_| others.question()), not_meant);
    let memory = Box::new([7u8; 64]);
    let address = memory.as_ptr() as u64;
    assert_eq!(ask(NAME, "same", |_| Question { address, descriptor: u32::MAX }), not_meant);
}

#[test]
fn another_user_cannot_answer() {
    const NAME: &str = "another_user_cannot_answer";
    if role().is_some() {
        return answerer();
    }
    if is_root() {
        let (said, right) = ask(NAME, "12345", |question| question);
        assert!(said.starts_with("Refused") && !right, "{said}");
    }
}

#[test]
fn root_without_capabilities_cannot_answer() {
    const NAME: &str = "root_without_capabilities_cannot_answer";
    if role().is_some() {
        return answerer();
    }
    if is_root() {
        let (said, right) = ask(NAME, "bare-root", |question| question);
        assert!(said.starts_with("Refused") && !right, "{said}");
    }
}

#[test]
fn a_process_in_another_user_namespace_cannot_answer_one_outside() {
    const NAME: &str = "a_process_in_another_user_namespace_cannot_answer_one_outside";
    if role().is_some() {
        return answerer();
    }
    let (said, right) = ask(NAME, "unmapped", |question| question);
    assert!(said.starts_with("Refused") && !right, "{said}");
}

#[test]
fn in_another_pid_namespace_a_process_of_the_same_user_answers_by_a_copy_of_a_descriptor() {
    const NAME: &str =
        "in_another_pid_namespace_a_process_of_the_same_user_answers_by_a_copy_of_a_descriptor";
    if role().is_some() {
        return answerer();
    }
    if is_root() {
        match ask(NAME, "other-pids", |question| question) {
            (said, true) => assert_eq!(said, "Copy"),
            // Before 6.5 nothing tells which process is at the other end.
            (said, false) => println!("SKIPPED: proof across pid namespaces: {said}"),
        }
        let (said, right) = ask(NAME, "other-pids", |question| Question { descriptor: u32::MAX, ..question });
        assert!(said.starts_with("Refused") && !right, "{said}");
    }
}
