//! Identifiers of the RDMA connection manager: who listens where, who is connected with whom, and how far the others have come.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nonic_rdma_cm::{IdentifierFacts, PortSpace, Progress, ShownIdentifiers};
use serde::Serialize;

use crate::doctor::BY_GID;
use crate::doctor::report::Line;

/// Identifiers that are told one by one; of more only the numbers.
const TOLD: usize = 32;

/// What is told of one identifier, for machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Told {
    state: &'static str,
    space: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_gid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<SocketAddr>,
}

impl From<&IdentifierFacts> for Told {
    fn from(facts: &IdentifierFacts) -> Self {
        Self {
            state: state(facts.progress),
            space: space(facts.space),
            by_gid: facts.by_gid,
            source: facts.source,
            destination: facts.destination,
        }
    }
}

fn state(progress: Progress) -> &'static str {
    match progress {
        Progress::Listening => "listening",
        Progress::Connected => "connected",
        Progress::Asking => "asking",
        Progress::Asked => "asked",
        Progress::Ending => "ending",
        Progress::Over => "over",
        Progress::Routed => "routed",
        Progress::Resolved => "resolved",
        Progress::Bound => "bound",
        Progress::Idle => "idle",
    }
}

fn space(space: PortSpace) -> &'static str {
    match space {
        PortSpace::Ipoib => "ipoib",
        PortSpace::Tcp => "tcp",
        PortSpace::Udp => "udp",
        PortSpace::InfiniBand => "ib",
        PortSpace::Scif => "scif",
    }
}

/// All of them, those that listen first, then by how far they have come and where they are.
pub(super) fn told(shown: &ShownIdentifiers) -> Vec<Told> {
    let mut facts: Vec<_> = shown.identifiers.iter().collect();
    facts.sort_by_key(|facts| (facts.progress, facts.source, facts.destination, facts.by_gid));
    facts.into_iter().map(Told::from).collect()
}

/// For people.
pub(super) fn lines(all: &[Told], beyond: u64) -> Vec<Line> {
    let mut lines: Vec<_> = all.iter().take(TOLD).map(line).collect();
    let mut more: BTreeMap<&str, usize> = BTreeMap::new();
    for one in all.iter().skip(TOLD) {
        *more.entry(one.state).or_default() += 1;
    }
    let mut more: Vec<_> = more.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
    if beyond > 0 {
        more.push(format!("{beyond} that the table has no room for"));
    }
    if !more.is_empty() {
        lines.push(Line::ok("more", more.join(", ")));
    }
    if lines.is_empty() {
        lines.push(Line::ok("identifiers", "none at this moment"));
    }
    lines
}

fn line(one: &Told) -> Line {
    let place = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    let ends = match (place(one.source), place(one.destination)) {
        (Some(source), Some(destination)) => format!(" {source} to {destination}"),
        (Some(source), None) => format!(" {source}"),
        (None, Some(destination)) => format!(" to {destination}"),
        (None, None) => String::new(),
    };
    let family = if one.by_gid { BY_GID } else { "" };
    Line::ok(one.state, format!("{}{ends}{family}", one.space))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::{Section, render_sections};
    use crate::style::Style;

    fn facts(progress: Progress, source: &str, destination: Option<&str>) -> IdentifierFacts {
        IdentifierFacts {
            space: PortSpace::Tcp,
            by_gid: false,
            progress,
            source: Some(source.parse().unwrap()),
            destination: destination.map(|address| address.parse().unwrap()),
        }
    }

    fn text(identifiers: Vec<IdentifierFacts>, beyond: u64) -> String {
        let shown = ShownIdentifiers { owner: 1, identifiers, beyond };
        let mut text = String::new();
        let sections = [Section::new("Connections", lines(&told(&shown), beyond))];
        render_sections(&sections, Style::Plain, &mut text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn those_that_listen_come_first_and_connections_show_both_ends() {
        let connected = facts(Progress::Connected, "127.0.0.1:7471", Some("127.0.0.1:40001"));
        let listening = facts(Progress::Listening, "[::]:7471", None);
        let by_gid = IdentifierFacts { by_gid: true, ..listening };
        let text = text(vec![connected, by_gid, listening], 0);
        let expected = "listening tcp [::]:7471 ok listening tcp [::]:7471 by GID ok connected tcp 127.0.0.1:7471 to 127.0.0.1:40001";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn of_many_the_rest_is_counted() {
        let many = (1..=40)
            .map(|port| facts(Progress::Connected, &format!("127.0.0.1:{port}"), Some("127.0.0.1:7471")));
        let text = text(many.collect(), 9);
        assert_eq!(text.matches(" to ").count(), TOLD, "{text}");
        assert!(text.contains("more 8 connected, 9 that the table has no room for"), "{text}");
    }

    #[test]
    fn a_process_whose_identifiers_are_gone_has_none() {
        assert!(text(Vec::new(), 0).contains("none at this moment"));
    }
}
