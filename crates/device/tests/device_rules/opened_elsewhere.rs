//! Queue pairs of an XRC domain that one process created and another has opened (`ibv_open_qp(3)`).

use std::sync::Arc;
use std::time::Duration;

use nonic_device::{
    AsyncElement, AsyncEventKind, AttributeMask, Context, DomainError, ModifyError, Operation, QpAttributes,
    QpNumber, QpState, Status,
};

use crate::common::eventually;
use crate::domain_scene::{SEND, Scene, file_of, open};

fn event(context: &Arc<Context>) -> (AsyncEventKind, AsyncElement) {
    assert!(nonic_sys::wait_readable(context.async_fd(), Some(Duration::from_secs(20))), "nothing happens");
    let event = context.next_async_event().unwrap();
    (event.kind, event.element)
}

fn to(state: QpState) -> QpAttributes {
    QpAttributes { state, ..QpAttributes::default() }
}

#[test]
fn a_queue_pair_of_another_process_is_shown_and_changed_as_its_creator_would() {
    let scene = Scene::new(&file_of("changed"));
    let pair = &scene.near.end.pair;
    let opened = scene.far_domain.open_queue_pair(pair.number(), 7).unwrap();
    assert_eq!((opened.number(), opened.cookie()), (pair.number(), 7));
    assert!(opened.pair().is_none());
    assert_eq!(opened.attributes().unwrap(), pair.attributes());
    let refused = opened.modify(&to(QpState::Init), AttributeMask::STATE);
    assert!(matches!(refused, Err(ModifyError::Elsewhere)), "{refused:?}");
    assert_eq!(pair.state(), QpState::ReadyToSend);
    opened.modify(&to(QpState::Error), AttributeMask::STATE).unwrap();
    assert_eq!(pair.state(), QpState::Error);
    assert_eq!(opened.attributes().unwrap().state, QpState::Error);
    opened.close();
    assert!(matches!(opened.attributes(), Err(ModifyError::Destroyed)));
    scene.far_domain.close().expect_err("its queue is there");
    scene.queue.destroy().unwrap();
    scene.far_domain.close().unwrap();
}

#[test]
fn what_happens_to_it_is_told_to_all_who_have_it_open() {
    let scene = Scene::new(&file_of("events"));
    let number = scene.near.end.pair.number();
    let opened = [0, 1].map(|cookie| scene.far_domain.open_queue_pair(number, cookie).unwrap());
    let closed = scene.far_domain.open_queue_pair(number, 2).unwrap();
    closed.close();
    let wrong = Operation::Write { remote: scene.near.remote(0), immediate: None };
    assert_eq!(scene.run(wrong, 0, 8), Status::RemoteAccess);
    let (kind, element) = event(scene.near.end.context());
    assert_eq!(kind, AsyncEventKind::QpAccessError);
    assert!(matches!(element, AsyncElement::QueuePair(_)));
    scene.near.end.pair.acknowledge_async_event();
    let mut told: Vec<_> = (0..2)
        .map(|_| match event(scene.far.end.context()) {
            (AsyncEventKind::QpAccessError, AsyncElement::OpenedQueuePair(opened)) => {
                opened.acknowledge_async_event();
                opened.cookie()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, [0, 1]);
    opened.iter().for_each(|opened| opened.close());
}

#[test]
fn it_lives_until_the_last_has_closed_it_wherever_that_is() {
    let scene = Scene::new(&file_of("lives"));
    let pair = &scene.near.end.pair;
    let opened = scene.far_domain.open_queue_pair(pair.number(), 0).unwrap();
    let again = scene.far_domain.open_queue_pair(pair.number(), 1).unwrap();
    pair.destroy().unwrap();
    scene.post_receive(1, 0, 64);
    assert_eq!(scene.run(SEND, 0, 8), Status::Success, "two have it open");
    assert_eq!(scene.received().id, 1);
    again.close();
    scene.post_receive(2, 0, 64);
    assert_eq!(scene.run(SEND, 0, 8), Status::Success, "one has it open");
    assert_eq!(scene.received().id, 2);
    opened.close();
    eventually("it lives on", || scene.far_domain.open_queue_pair(pair.number(), 2).is_err());
    scene.near_domain.close().unwrap();
}

#[test]
fn a_domain_that_its_process_has_closed_ends_with_the_last_queue_pair_that_another_has_open() {
    let file = file_of("closed");
    let scene = Scene::new(&file);
    let pair = &scene.near.end.pair;
    let opened = scene.far_domain.open_queue_pair(pair.number(), 0).unwrap();
    pair.destroy().unwrap();
    scene.near_domain.close().unwrap();
    scene.post_receive(1, 0, 64);
    assert_eq!(scene.run(SEND, 0, 8), Status::Success, "it is open");
    assert_eq!(scene.received().id, 1);
    // Whoever opens it again in that process finds it as it was.
    let again = open(&scene.near, &file, false, false).unwrap();
    let here = again.open_queue_pair(pair.number(), 1).unwrap();
    opened.close();
    again.close().expect_err("a queue pair of it is open");
    here.close();
    again.close().unwrap();
    scene.queue.destroy().unwrap();
    scene.far_domain.close().unwrap();
    let is_over = || matches!(open(&scene.near, &file, false, false), Err(DomainError::NoneThere));
    eventually("it goes on without anybody", is_over);
    open(&scene.near, &file, true, true).unwrap().close().unwrap();
}

#[test]
fn it_ends_when_the_last_who_has_it_open_ends() {
    let scene = Scene::new(&file_of("ends"));
    let number = scene.near.end.pair.number();
    let _opened = scene.far_domain.open_queue_pair(number, 0).unwrap();
    scene.near.end.pair.destroy().unwrap();
    assert_eq!(scene.near.end.pair.state(), QpState::ReadyToSend);
    scene.far.end.context().close();
    eventually("it lives on", || scene.near.end.pair.state() == QpState::Reset);
    scene.near_domain.open_queue_pair(number, 1).expect_err("it is gone");
}

#[test]
fn it_goes_on_when_its_creator_closes_the_device_and_ends_when_that_fails() {
    let scene = Scene::new(&file_of("fails"));
    let opened = scene.far_domain.open_queue_pair(scene.near.end.pair.number(), 0).unwrap();
    let other = scene.near.end.context().device().open().unwrap();
    scene.near.end.context().close();
    scene.post_receive(1, 0, 64);
    assert_eq!(scene.run(SEND, 0, 8), Status::Success);
    assert_eq!(scene.received().id, 1);
    assert_eq!(opened.attributes().unwrap().state, QpState::ReadyToSend);
    other.change("fatal".parse().unwrap()).unwrap();
    eventually("it is shown still", || matches!(opened.attributes(), Err(ModifyError::Gone)));
    opened.modify(&to(QpState::Error), AttributeMask::STATE).expect_err("it is not there");
    opened.close();
}

#[test]
fn numbers_of_queue_pairs_that_are_not_of_the_domain_are_not_opened() {
    let scene = Scene::new(&file_of("numbers-of-pairs"));
    let own = scene.near.end.pair.number();
    for wrong in [QpNumber(0), QpNumber(own.0 ^ 1), scene.peer.end.pair.number(), QpNumber(0xff_ffff)] {
        scene.far_domain.open_queue_pair(wrong, 0).expect_err("nobody has it");
    }
    let elsewhere = Scene::new(&file_of("another-domain"));
    elsewhere.far_domain.open_queue_pair(own, 0).expect_err("it is of another domain");
}
