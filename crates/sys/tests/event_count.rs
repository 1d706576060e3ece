//! Sleeping until somebody rings, under the model checker: nobody sleeps through what was brought about before the bell rang.
//! Runs with `ci/loom`; elsewhere there is nothing to run.

#![cfg(loom)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use nonic_sys::EventCount;

/// A bell, what is waited for, and the descriptor of a sleeper elsewhere.
#[derive(Default)]
struct Scene {
    bell: EventCount,
    done: AtomicU32,
    signals: Mutex<u32>,
    signalled: Condvar,
}

impl Scene {
    fn wait_here(&self, wanted: u32) {
        loop {
            let ticket = self.bell.prepare();
            if self.done.load(Ordering::Relaxed) >= wanted {
                return;
            }
            self.bell.sleep(ticket, None).unwrap();
        }
    }

    /// As a thread does that drives the device: it sleeps in a read of a descriptor, and may be woken for other reasons.
    fn wait_elsewhere(&self, wanted: u32) {
        loop {
            self.bell.prepare_elsewhere();
            if self.done.load(Ordering::Relaxed) >= wanted {
                return;
            }
            let mut signals = self.signals.lock().unwrap();
            while *signals == 0 {
                signals = self.signalled.wait(signals).unwrap();
            }
            *signals = 0;
            drop(signals);
            self.bell.wake_elsewhere();
        }
    }

    fn bring_about(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.bell.ring() {
            *self.signals.lock().unwrap() += 1;
            self.signalled.notify_one();
        }
    }
}

/// Runs the waits in threads of their own and brings about `count` things, one in a thread each.
fn play(waits: &[fn(&Scene, u32)], count: u32) {
    let scene = Arc::new(Scene::default());
    let mut threads = Vec::new();
    for wait in waits.iter().copied() {
        let scene = Arc::clone(&scene);
        threads.push(loom::thread::spawn(move || wait(&scene, count)));
    }
    for _ in 1..count {
        let scene = Arc::clone(&scene);
        threads.push(loom::thread::spawn(move || scene.bring_about()));
    }
    scene.bring_about();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_sleeper_is_woken() {
    loom::model(|| play(&[Scene::wait_here], 1));
}

#[test]
fn a_sleeper_elsewhere_is_woken() {
    loom::model(|| play(&[Scene::wait_elsewhere], 1));
}

#[test]
fn a_sleeper_that_waits_for_two_things_is_woken_by_the_second() {
    loom::model(|| play(&[Scene::wait_here], 2));
}

#[test]
fn a_sleeper_elsewhere_that_waits_for_two_things_is_woken_by_the_second() {
    loom::model(|| play(&[Scene::wait_elsewhere], 2));
}

#[test]
fn two_sleepers_are_woken_here_and_elsewhere() {
    loom::model(|| play(&[Scene::wait_here, Scene::wait_elsewhere], 1));
}

#[test]
fn two_sleepers_here_are_woken() {
    loom::model(|| play(&[Scene::wait_here, Scene::wait_here], 1));
}

/// Without the last look a sleeper misses what was brought about before it said that it sleeps.
#[test]
#[should_panic(expected = "deadlock")]
fn without_the_last_look_the_model_finds_the_sleeper_that_is_not_woken() {
    fn wait_blindly(scene: &Scene, wanted: u32) {
        while scene.done.load(Ordering::Relaxed) < wanted {
            let ticket = scene.bell.prepare();
            scene.bell.sleep(ticket, None).unwrap();
        }
    }
    loom::model(|| play(&[wait_blindly], 1));
}
