//! What the demo prints, for people and for machines.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::measure::Figure;
use super::step::Done;
use crate::style::{Style, print, wrapped};

/// Columns of the report on a terminal.
const WIDTH: usize = 110;

/// Where the text of a step begins.
const TEXT_COLUMN: usize = 26;

/// Where its figures' values end.
const FIGURE_WIDTH: usize = 28;

/// One step as it went.
#[derive(Debug, Serialize)]
struct Played {
    name: &'static str,
    passed: bool,
    what: String,
    figures: Vec<Figure>,
}

/// The demo as it goes.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    passed: bool,
    device: Option<String>,
    link_layer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    places: Option<[String; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<[IpAddr; 2]>,
    processes: [u32; 2],
    steps: Vec<Played>,
    #[serde(skip)]
    style: Style,
    #[serde(skip)]
    silent: bool,
    error: Option<String>,
    seconds: f64,
}

impl Report {
    /// Of these two processes; silent until the end for machines.
    pub(super) fn new(processes: [u32; 2], json: bool) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            passed: false,
            device: None,
            link_layer: None,
            places: None,
            service: None,
            address: None,
            ends: None,
            processes,
            steps: Vec::new(),
            style: Style::of_standard_output(),
            silent: json,
            error: None,
            seconds: 0.0,
        }
    }

    /// The device is open.
    pub(super) fn opened(&mut self, device: String, link_layer: String) {
        let title = format!("nonic {}: {device}, {link_layer} port, ", self.version);
        let [initiator, target] = self.processes;
        self.say(&format!("{}processes {initiator} and {target}\n", self.style.strong(title)));
        (self.device, self.link_layer) = (Some(device), Some(link_layer));
    }

    /// The SCIF endpoints are connected.
    pub(super) fn joined(&mut self, places: [String; 2]) {
        let title = format!("nonic {}: SCIF, {} and {}, ", self.version, places[0], places[1]);
        let [initiator, target] = self.processes;
        self.say(&format!("{}processes {initiator} and {target}\n", self.style.strong(title)));
        self.places = Some(places);
    }

    /// The endpoints of uDAPL are connected.
    pub(super) fn connected(&mut self, adapter: String, number: u64) {
        let title = format!("nonic {}: uDAPL, adapter {adapter}, service {number}, ", self.version);
        let [initiator, target] = self.processes;
        self.say(&format!("{}processes {initiator} and {target}\n", self.style.strong(title)));
        (self.device, self.service) = (Some(adapter), Some(number));
    }

    /// The connection manager has found the device that leads to that address.
    pub(super) fn resolved(&mut self, device: String, link_layer: String, address: SocketAddr) {
        let (ip, port) = (address.ip(), address.port());
        let title = format!(
            "nonic {}: connection manager, {device}, {link_layer} port, {ip} port {port}, ",
            self.version
        );
        let [initiator, target] = self.processes;
        self.say(&format!("{}processes {initiator} and {target}\n", self.style.strong(title)));
        (self.device, self.link_layer, self.address) = (Some(device), Some(link_layer), Some(address));
    }

    /// The device has an address at one end of a cable.
    pub(super) fn wired(&mut self, device: String, ends: [IpAddr; 2]) {
        let title = format!("nonic {}: RoCEv2, {device}, from {} to {}, ", self.version, ends[0], ends[1]);
        let [initiator, target] = self.processes;
        self.say(&format!("{}processes {initiator} and {target}\n", self.style.strong(title)));
        (self.device, self.ends) = (Some(device), Some(ends));
    }

    /// How many steps went well.
    pub(super) fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// A step went well.
    pub(super) fn done(&mut self, name: &'static str, done: Done) {
        let mut text = self.block(&self.style.good("ok    "), name, &done.what);
        for figure in &done.figures {
            let value = self.style.strong(format_args!("{:>8.2} {}", figure.value, figure.unit));
            text.push_str(&format!("{:TEXT_COLUMN$}{:<FIGURE_WIDTH$}{value}\n", "", figure.name));
        }
        self.say(text.trim_end());
        self.steps.push(Played { name, passed: true, what: done.what, figures: done.figures });
    }

    /// The step that was next went wrong.
    pub(super) fn failed(&mut self, name: &'static str, words: String) {
        self.say(self.block(&self.style.bad("FAILED"), name, &words).trim_end());
        self.steps.push(Played { name, passed: false, what: words.clone(), figures: Vec::new() });
        self.error = Some(words);
    }

    /// Nothing more comes. Whether all went well.
    pub(super) fn finish(mut self, seconds: f64) -> bool {
        self.passed = self.error.is_none();
        self.seconds = (seconds * 1000.0).round() / 1000.0;
        if self.silent {
            let text = serde_json::to_string(&self).expect("a report holds only strings and numbers");
            print(&format!("{text}\n"));
            return self.passed;
        }
        match &self.error {
            None => self.say(&format!(
                "\n{} Next: nonic run -- PROGRAM, or nonic doctor.",
                self.style.good(format_args!("{} passed in {seconds:.1} s.", steps_in_words(self.steps.len())))
            )),
            Some(_) => self.say(&format!(
                "\n{} What works on this machine: nonic doctor. What the device does: nonic demo --log debug.",
                self.style.bad("The demo failed.")
            )),
        }
        self.passed
    }

    fn block(&self, mark: &str, name: &str, words: &str) -> String {
        let mut lines = wrapped(words, WIDTH - TEXT_COLUMN).into_iter();
        let name_width = TEXT_COLUMN - 10;
        let mut text = format!("  {mark}  {name:<name_width$}{}\n", lines.next().unwrap_or_default());
        for line in lines {
            text.push_str(&format!("{:TEXT_COLUMN$}{line}\n", ""));
        }
        text
    }

    fn say(&self, text: &str) {
        if !self.silent {
            print(&format!("{text}\n"));
        }
    }
}

fn steps_in_words(count: usize) -> String {
    if count == 1 { "The step".to_owned() } else { format!("All {count} steps") }
}
