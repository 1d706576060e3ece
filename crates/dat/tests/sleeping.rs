//! What it costs to wait for a message. Alone in its process: a thread that waits drives the device for all others.

mod common;

use common::connected::{PLAIN, done, pair, seen};
use common::waiting::{cpu_time_of_this_thread, named_thread, until_asleep};
use nonic_dat::{NotificationObject, TransferKind};
use std::time::Duration;

/// Waits for a dispatcher itself, and for a notification object of it.
#[test]
fn a_sleeper_is_woken_by_a_message_and_costs_nothing_until_then() {
    for by_object in [false, true] {
        let (near, far) = pair();
        far.receive(1, 64);
        let object = NotificationObject::create(&far.adapter, None).unwrap();
        if by_object {
            far.transfers.modify_notification(Some(&object)).unwrap();
        }
        std::thread::scope(|scope| {
            let (waiter, thread) = named_thread(scope, || {
                let before = cpu_time_of_this_thread();
                let mut found = None;
                if by_object {
                    let dispatcher = object.wait(None).unwrap();
                    dispatcher.dequeue(|event| found = Some(seen(event))).unwrap();
                } else {
                    far.transfers.wait(None, 1, |event| found = Some(seen(event))).0.unwrap();
                }
                (found, cpu_time_of_this_thread() - before)
            });
            until_asleep(thread);
            let switches = voluntary_switches(thread);
            // The time asleep is what is measured: long enough for looking in vain to show.
            std::thread::sleep(Duration::from_millis(300));
            let idle = voluntary_switches(thread) - switches;
            near.send(2, 8, PLAIN).unwrap();
            let (found, cost) = waiter.join().unwrap();
            assert_eq!(found, Some(done(1, TransferKind::Receive, 8)));
            assert!(cost < Duration::from_millis(100), "waiting took {cost:?} of a CPU");
            assert_eq!(idle, 0, "it was woken while nothing came");
        });
        assert_eq!(near.next(), done(2, TransferKind::Send, 8));
    }
}

/// How often a thread of this process has gone to sleep.
fn voluntary_switches(thread: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
