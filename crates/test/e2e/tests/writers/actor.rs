//! The other writer: executes the drawn acts with `ip` and with its own raw messages.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use trueup_e2e::cases::author::{FOREIGN, LINKS};
use trueup_e2e::cases::other_writer;
use trueup_e2e::cases::spec::WriterSpec;
use trueup_e2e::world::{Id, World, derived};
use trueup_testkit::fields::OURS;
use trueup_testkit::{Action, Kind, RawMessage, Writer};

use crate::act::{Act, Anew};
use crate::owners::OUR_INDEXES;

/// None, `static`, `bird`, and ours.
pub(crate) const PROTOCOLS: [u8; 4] = [0, 4, 12, OURS];

const KINDS: [Kind; 5] = [Kind::Link, Kind::Address, Kind::Neighbour, Kind::Route, Kind::Rule];

const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;

const IFLA_MTU: u16 = 4;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;

pub(crate) struct Actor {
    writer: Writer,
    /// The objects that it leaves alone: the pair on which everything is.
    base: BTreeSet<Id>,
    /// The links that it renamed.
    pub(crate) renamed: BTreeSet<u32>,
    /// The renamed links, and the reused indexes.
    pub(crate) touched: BTreeSet<u32>,
    /// The ports of its sockets.
    pub(crate) ports: BTreeSet<u32>,
    pub(crate) journal: Vec<String>,
    /// Rows that had our marker when it saw them.
    seen: BTreeSet<RawMessage>,
}

impl Actor {
    /// Enters a fresh namespace, and makes the permanent objects.
    pub(crate) fn settle() -> Actor {
        let writer = Writer::open();
        let mut actor = Actor {
            ports: BTreeSet::from([writer.port()]),
            writer,
            base: BTreeSet::new(),
            renamed: BTreeSet::new(),
            touched: BTreeSet::new(),
            journal: Vec::new(),
            seen: BTreeSet::new(),
        };
        let [one, other] = FOREIGN;
        actor.hold(&[
            format!("link add {one} type veth peer name {other}"),
            format!("link set {one} up"),
            format!("link set {other} up"),
            format!("address add 10.0.3.200/24 dev {one}"),
            format!("address add fd00:3::200/64 dev {one} nodad"),
            format!("address add 10.9.9.1/24 dev {other}"),
        ]);
        actor
    }

    /// Runs commands whose objects it leaves alone from then on.
    pub(crate) fn hold(&mut self, lines: &[String]) {
        self.ip(lines);
        let all = World::look();
        self.base = all.declared().map(|(id, _)| id.clone()).collect();
    }

    pub(crate) fn act(&mut self, act: &Act) {
        match act {
            Act::Make(spec) => self.make(spec),
            Act::Delete { kind, pick } => {
                if let Some(row) = self.pick(KINDS[*kind], *pick) {
                    self.delete(&row);
                }
            }
            Act::Rewrite { kind, pick, anew } => {
                if let Some(row) = self.pick(KINDS[*kind], *pick) {
                    // Writing over a rule would make a second one.
                    let flags = match row.kind {
                        Kind::Rule => NLM_F_CREATE | NLM_F_EXCL,
                        _ => NLM_F_CREATE | NLM_F_REPLACE,
                    };
                    self.send(&written_anew(&row, *anew), flags);
                }
            }
            Act::Again { kind, pick, anew } => {
                if let Some(row) = self.pick(KINDS[*kind], *pick) {
                    self.delete(&row);
                    self.send(&written_anew(&row, *anew), NLM_F_CREATE | NLM_F_EXCL);
                }
            }
            Act::Squat { kind, pick, anew } => {
                let of_kind = |row: &&RawMessage| row.kind == KINDS[*kind];
                let seen = self.seen.iter().filter(of_kind).cloned().collect();
                if let Some(row) = nth(seen, *pick) {
                    self.send(&written_anew(&row, *anew), NLM_F_CREATE | NLM_F_EXCL);
                }
            }
            Act::Beside { pick, first, protocol } => {
                let all = self.rows(Kind::Route);
                let v4: Vec<_> = all.into_iter().filter(|row| row.family() == 2).collect();
                if let Some(row) = nth(v4, *pick) {
                    let change = u8::from(row.header[7] != 6);
                    let anew = Anew { protocol: *protocol, change: 2 * change };
                    let append = if *first { 0 } else { NLM_F_APPEND };
                    self.send(&written_anew(&row, anew), NLM_F_CREATE | append);
                }
            }
            Act::Rename { pick, to } => {
                if let Some(mut link) = self.pick(Kind::Link, *pick) {
                    let name = match LINKS[*to] {
                        "ext0" => "f9",
                        name => name,
                    };
                    link.attrs.clear();
                    link.header[8..].fill(0);
                    link.attrs.insert(IFLA_IFNAME, text(name));
                    if self.send(&link, 0) {
                        self.renamed.insert(link.device());
                        self.touched.insert(link.device());
                    }
                }
            }
            Act::Reindex { pick, name, kind } => {
                if let Some(link) = self.pick(Kind::Link, *pick) {
                    self.delete(&link);
                    let old = link.ifname().unwrap();
                    let bridge =
                        link.attrs[&IFLA_LINKINFO].windows(6).any(|word| word == b"bridge");
                    // With the same name and kind it would be the same link, by everything that the
                    // kernel keeps.
                    let (name, bridge) = match (name, kind) {
                        (true, _) => (old.as_str(), !bridge),
                        (false, kind) => (if old == "f8" { "f7" } else { "f8" }, bridge == *kind),
                    };
                    let kind = if bridge { "bridge" } else { "ifb" };
                    let mut made = RawMessage {
                        attrs: [(IFLA_IFNAME, text(name)), (IFLA_LINKINFO, info(kind))].into(),
                        ..link
                    };
                    made.header[8..12].copy_from_slice(&1_u32.to_ne_bytes());
                    made.header[12..].copy_from_slice(&1_u32.to_ne_bytes());
                    self.touched.insert(made.device());
                    self.send(&made, NLM_F_CREATE | NLM_F_EXCL);
                }
            }
            Act::Set { pick, what } => {
                if let Some(mut link) = self.pick(Kind::Link, *pick) {
                    link.attrs.clear();
                    link.header[8..].fill(0);
                    match what {
                        0 => link.attrs.insert(IFLA_MTU, 1450_u32.to_ne_bytes().into()),
                        1 => link.attrs.insert(IFLA_GROUP, 9_u32.to_ne_bytes().into()),
                        2 => link.attrs.insert(IFLA_IFALIAS, b"his".to_vec()),
                        _ => {
                            // IFF_UP, changed or not.
                            link.header[8] = what & 1;
                            link.header[12] = 1;
                            None
                        }
                    };
                    self.send(&link, 0);
                }
            }
        }
    }

    /// Deletes all objects for which `his` returns true.
    pub(crate) fn withdraw(&mut self, his: impl Fn(&Id, &RawMessage) -> bool) {
        self.say("the other writer withdraws");
        // Two rounds: a delete without a protocol takes the first row of a key, which may be ours.
        for kind in KINDS.into_iter().rev().chain(KINDS.into_iter().rev()) {
            for row in self.rows(kind) {
                if his(&Id::of(&row), &row) {
                    self.delete(&row);
                }
            }
        }
    }

    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.journal.push(text.into());
    }

    fn make(&mut self, spec: &WriterSpec) {
        let mut spec = spec.clone();
        match &mut spec {
            // Avoid the kernel's protocols, which are not the subject here.
            WriterSpec::Route(_, protocol) | WriterSpec::Rule(_, protocol) => *protocol %= 3,
            WriterSpec::Link { which, .. } => *which %= LINKS.len() - 1,
            _ => {}
        }
        self.ip(&other_writer::lines(&spec, false));
    }

    /// Returns the rows of a kind that the other writer may touch.
    fn rows(&self, kind: Kind) -> Vec<RawMessage> {
        let world = World::look();
        let free = |id: &Id, row: &RawMessage| !derived(row) && !self.base.contains(id);
        let rows = world.of(kind).filter(|(id, row)| free(id, row));
        let request = |(_, row): (_, &RawMessage)| {
            let mut row = row.clone();
            if kind == Kind::Address {
                // IFA_CACHEINFO, of which a snapshot keeps a part that the kernel would refuse.
                row.attrs.remove(&6);
            }
            row
        };
        rows.map(request).collect()
    }

    /// Returns one row, more often ours than not.
    fn pick(&mut self, kind: Kind, pick: u16) -> Option<RawMessage> {
        let all = self.rows(kind);
        let ours = |row: &&RawMessage| {
            row.protocol() == Some(OURS) || (kind == Kind::Link && row.device() >= OUR_INDEXES)
        };
        let ours: Vec<_> = all.iter().filter(ours).cloned().collect();
        self.seen.extend(ours.iter().cloned());
        match pick % 4 {
            1.. if !ours.is_empty() => nth(ours, pick / 4),
            _ => nth(all, pick / 4),
        }
    }

    fn delete(&mut self, row: &RawMessage) {
        let mut row = row.clone();
        row.action = Action::Del;
        if row.kind == Kind::Link {
            row.attrs.clear();
            row.header[8..].fill(0);
        }
        self.send(&row, 0);
    }

    fn send(&mut self, message: &RawMessage, flags: u16) -> bool {
        let answer = self.writer.send(message, flags);
        let message = match &answer {
            Ok(()) => String::new(),
            Err(error) => format!(": {error}"),
        };
        self.say(format!("  {message} flags {flags:#x}{message}"));
        answer.is_ok()
    }

    /// Runs lines of `ip`, of which any may fail. The family is removed from a line and given as an
    /// option, as `-batch` accepts none in a line.
    fn ip(&mut self, lines: &[String]) {
        let family = |line: &str| match line.get(..3) {
            Some("-4 ") => "-4",
            Some("-6 ") => "-6",
            _ => "-0",
        };
        for lines in lines.chunk_by(|one, next| family(one) == family(next)) {
            let family = family(&lines[0]);
            let options: &[&str] = if family == "-0" { &[] } else { &[family] };
            let mut child = Command::new("ip")
                .args(options)
                .args(["-force", "-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("ip, of Debian's package iproute2");
            // The kernel gives a process's first netlink socket the process id as its port.
            self.ports.insert(child.id());
            let mut stdin = child.stdin.take().unwrap();
            for line in lines {
                let line = line.strip_prefix(family).unwrap_or(line).trim_start();
                self.say(format!("  ip {} {line}", options.concat()));
                writeln!(stdin, "{line}").unwrap();
            }
            drop(stdin);
            let output = child.wait_with_output().unwrap();
            for line in String::from_utf8_lossy(&output.stderr).lines() {
                self.say(format!("    {line}"));
            }
        }
    }
}

fn nth(mut rows: Vec<RawMessage>, pick: u16) -> Option<RawMessage> {
    match rows.len() {
        0 => None,
        len => Some(rows.swap_remove(usize::from(pick) % len)),
    }
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// Returns `IFLA_INFO_KIND` as an attribute.
fn info(kind: &str) -> Vec<u8> {
    let mut bytes = vec![];
    bytes.extend((4 + kind.len() as u16).to_ne_bytes());
    bytes.extend(1_u16.to_ne_bytes());
    bytes.extend(kind.bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Turns a dump's row into a request that writes it with another protocol, and perhaps another
/// change.
fn written_anew(row: &RawMessage, anew: Anew) -> RawMessage {
    let mut row = row.clone();
    let protocol = PROTOCOLS[anew.protocol];
    let mut put = |number: u16| match protocol {
        0 => drop(row.attrs.remove(&number)),
        protocol => drop(row.attrs.insert(number, vec![protocol])),
    };
    match row.kind {
        Kind::Route => row.header[5] = protocol,
        // FRA_PROTOCOL, NDA_PROTOCOL, IFA_PROTO
        Kind::Rule => put(21),
        Kind::Neighbour => put(12),
        Kind::Address => put(11),
        Kind::Link | Kind::Nexthop => {}
    }
    match (row.kind, anew.change) {
        // RTA_PRIORITY: a second route. A type: a route that replaces it.
        (Kind::Route, 1) => drop(row.attrs.insert(6, 77_u32.to_ne_bytes().into())),
        (Kind::Route, 2) => {
            // A blackhole has no next hop's flags.
            row.header[7..].fill(0);
            row.header[7] = 6;
            row.attrs.retain(|number, _| [1, 2, 6, 15].contains(number));
            if row.family() == 2 {
                row.header[6] = 0;
            }
        }
        // NDA_LLADDR
        (Kind::Neighbour, 1) if row.attrs.contains_key(&2) => {
            row.attrs.insert(2, vec![2, 0, 0, 0, 9, 9]);
        }
        // IFA_CACHEINFO: preferred and valid lifetimes in seconds.
        (Kind::Address, 1) => {
            let life = [3000_u32, 6000, 0, 0];
            let life = life.iter().flat_map(|n| n.to_ne_bytes()).collect();
            row.attrs.insert(6, life);
        }
        _ => {}
    }
    row
}
