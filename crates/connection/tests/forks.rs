//! What a fork does to the connection manager.

mod common;

use common::*;

#[test]
fn servant() {
    serve();
}

/// Runs `body` in a child made by fork; whether it was satisfied.
fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status == 0
}

#[test]
fn a_child_has_connections_of_its_own_and_none_of_its_parents() {
    let (number, childs) = (fresh_number(), fresh_number());
    let mut other = start();
    other.tell(&format!("listen {number}"));
    let (listener, requests) = offer(fresh_number());
    let (connection, asked) = ask(number, b"parent", None);
    other.tell("next");
    let kept = std::cell::Cell::new(Some((connection, listener, requests)));
    let own_space = space();
    let good = in_child(|| {
        // In the child the parent's end, as far as anybody can tell.
        let (connection, listener, requests) = kept.take().unwrap();
        connection.disconnect();
        drop((connection, listener, requests));
        // It asks and serves itself.
        let (_listener, requests) = offer_in(&own_space, childs).unwrap();
        let (_mine, own) = ask_in(&own_space, childs, b"child", None);
        let request = requests.next();
        let good = &**request.data() == b"child";
        let (_served, serving) = accept(request, b"");
        good && own.next() == accepted(b"") && serving.next() == Told::Established
    });
    assert!(good);
    // The parent's attempt was not given up, and what the child had has gone with it.
    other.tell("accept parent");
    assert_eq!(asked.next(), accepted(b"parent"));
    let (_listener, _requests) = offer(childs);
    other.finish();
}

#[test]
fn a_child_finds_a_service_that_its_parent_had_found() {
    let (mut other, number) = listening();
    let (_connection, asked) = take_one(&mut other, number);
    let own_space = space();
    other.order("serve 1");
    assert!(in_child(|| {
        let (_connection, asked) = ask_in(&own_space, number, b"", None);
        let is_accepted = asked.next() == accepted(b"");
        // That it has heard so is on its way before the child is gone.
        nonic_connection::flush();
        is_accepted
    }));
    assert_eq!(other.hear(), "ok");
    // And the parent finds it as before.
    let _again = take_one(&mut other, number);
    asked.stay_empty_now();
    other.finish();
}

#[test]
fn a_child_that_exits_in_order_says_nothing_for_its_parent() {
    let (mut other, number) = listening();
    let (_connection, asked) = take_one(&mut other, number);
    assert_eq!(other.tell("hear"), "Established");
    // SAFETY: the child runs the handlers that exit runs.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: ends the child.
        unsafe { libc::exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    other.tell("disconnect");
    assert_eq!(asked.next(), Told::Disconnected);
    other.finish();
}
