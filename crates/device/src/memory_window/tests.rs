//! When a window leaves a place of the key table.

use super::*;
use crate::devices;

#[test]
fn a_place_is_left_when_all_its_keys_are_used_or_given_up() {
    let zone = devices()[0].open().unwrap().allocate_zone().unwrap();
    let window = zone.allocate_window(WindowKind::Type1).unwrap();
    let (first, engine) = (window.key(), zone.context().engine());
    let keys: Vec<_> = (0..1000).map(|_| window.next_key()).collect();
    assert_eq!(window.lock().older.len(), 3, "each place has some 250 keys");
    for key in &keys {
        assert!(engine.windows.find(*key).is_some_and(|found| found.id() == window.id()));
    }
    for key in &keys[1..] {
        window.give_up(*key);
    }
    // The first place has the key that is open, and the one that would be bound.
    assert_eq!(window.lock().older.iter().map(|place| place.index).collect::<Vec<_>>(), [first.index()]);
    let unbind = |key| Binding {
        key,
        region: None,
        address: 0,
        length: 0,
        access: Access::default(),
        zero_based: false,
    };
    assert_eq!(window.bind(QpNumber(1), zone.id(), &unbind(keys[0]), None), Ok(Turn::Done));
    assert_eq!(window.lock().older.len(), 1, "the key that holds keeps its place");
    let next = window.next_key();
    assert_eq!(window.bind(QpNumber(1), zone.id(), &unbind(next), None), Ok(Turn::Done));
    assert!(window.lock().older.is_empty());
    assert!(engine.windows.find(first).is_none());
    assert_eq!(window.bind(QpNumber(1), zone.id(), &unbind(keys[0]), None), Err(WindowError::Gone));
    window.release().unwrap();
}
