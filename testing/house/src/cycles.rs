//! Whether uses go round in a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A shortest circle of uses, each name once; none if there is no circle.
pub fn cycle<'a>(uses: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Vec<&'a str>> {
    let mut used_by: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in uses {
        used_by.entry(from).or_default().insert(to);
    }
    used_by.keys().filter_map(|start| way_back(&used_by, start)).min_by_key(Vec::len)
}

fn way_back<'a>(used_by: &BTreeMap<&'a str, BTreeSet<&'a str>>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(name) = waiting.pop_front() {
        for &next in used_by.get(name).into_iter().flatten() {
            if next == start {
                let mut way = vec![name];
                while *way.last().expect("it has one") != start {
                    way.push(came_from[way.last().expect("it has one")]);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, name);
                waiting.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_that_point_one_way_are_no_circle() {
        assert_eq!(cycle([("a", "b"), ("b", "c"), ("a", "c")]), None);
    }

    #[test]
    fn the_shortest_circle_is_found() {
        let uses = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "c"), ("x", "a")];
        assert_eq!(cycle(uses), Some(vec!["c", "d"]));
        assert_eq!(cycle([("a", "b"), ("b", "c"), ("c", "a")]), Some(vec!["a", "b", "c"]));
    }
}
