//! The kernel that a scenario runs on, real or fake, as seen from outside of the crates under test: somebody acts on it,
//! its rows are read, its announcements are heard.

mod rest;

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::{Command as Process, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trueup_netlink::{Group, Namespace, Transport};

use super::command::{Command, INET, INET6};
use super::object::Names;
use super::{Act, errno};
use crate::enter::quiet_netns;
use crate::fake;
use crate::message::{Kind, RawMessage, framed, u16_at, u32_at};
use crate::runner::running_version;
use crate::stable::stable;
use crate::wire::DATAGRAM;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
const ENODEV: i32 = 19;

/// Something else than what the scenario is about went wrong, or a line did not end as it says; at that line.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

fn trouble(message: impl Into<String>) -> Trouble {
    Trouble {
        line: None,
        message: message.into(),
    }
}

impl Trouble {
    fn at(self, line: usize) -> Trouble {
        Trouble {
            line: self.line.or(Some(line)),
            ..self
        }
    }
}

type Result<T, E = Trouble> = std::result::Result<T, E>;

/// One socket: requests and their answers, or announcements.
pub(super) struct Wire {
    transport: Box<dyn Transport>,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Wire {
    pub(super) fn open(namespace: &Namespace) -> Result<Wire> {
        let transport = namespace
            .connect()
            .map_err(|error| trouble(error.to_string()))?;
        Ok(Wire {
            transport,
            buffer: Vec::with_capacity(DATAGRAM),
            sequence: 0,
        })
    }

    /// The next datagram, waiting for it up to five seconds.
    fn receive(&mut self) -> Result<Vec<u8>> {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(bytes) = self.take()? {
                return Ok(bytes);
            }
            if Instant::now() > end {
                return Err(trouble("no answer within five seconds"));
            }
            let second = Timespec::try_from(Duration::from_secs(1)).ok();
            let fd = self.transport.as_fd();
            let _readable = poll(&mut [PollFd::new(&fd, PollFlags::IN)], second.as_ref());
        }
    }

    /// The next datagram, if there is one.
    fn take(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            match self.transport.receive(&mut self.buffer) {
                Ok(len) if len > self.buffer.len() => {
                    return Err(trouble("a datagram larger than the buffer"));
                }
                Ok(_) => return Ok(Some(self.buffer.clone())),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(trouble(format!("receiving: {error}"))),
            }
        }
    }

    fn send(&mut self, message_type: u16, flags: u16, body: &[u8]) -> Result<()> {
        self.sequence += 1;
        let message = framed(message_type, flags | NLM_F_REQUEST, self.sequence, 0, body);
        self.transport
            .send(&message)
            .map_err(|error| trouble(format!("sending: {error}")))
    }

    /// Sends one message and gives back the errno that it is answered with, 0 for success.
    pub(super) fn request(&mut self, message_type: u16, flags: u16, body: &[u8]) -> Result<i32> {
        self.send(message_type, flags | NLM_F_ACK, body)?;
        loop {
            let datagram = self.receive()?;
            for (answer, _, body) in messages(&datagram) {
                if answer == NLMSG_ERROR {
                    return Ok(-errno_of(body));
                }
            }
        }
    }

    /// The rows of a kind, asked for with this header.
    fn dump(&mut self, kind: Kind, header: &[u8]) -> Result<Vec<RawMessage>> {
        self.send(kind.new_type() + 2, NLM_F_DUMP, header)?;
        let mut rows = Vec::new();
        loop {
            let datagram = self.receive()?;
            for (answer, _, body) in messages(&datagram) {
                match answer {
                    NLMSG_DONE | NLMSG_ERROR => match -errno_of(body) {
                        0 => return Ok(rows),
                        code => {
                            return Err(trouble(format!(
                                "dump of {}s: {}",
                                kind.word(),
                                errno::name(code)
                            )));
                        }
                    },
                    _ => rows.extend(RawMessage::parse(answer, body)),
                }
            }
        }
    }

    fn rows(&mut self, kind: Kind, family: u8) -> Result<Vec<RawMessage>> {
        let mut header = vec![0; kind.header_len()];
        header[0] = family;
        let mut rows = self.dump(kind, &header)?;
        if kind == Kind::Neighbour && family != super::command::BRIDGE {
            const NTF_PROXY: u8 = 8;
            header[10] = NTF_PROXY;
            rows.extend(self.dump(kind, &header)?);
        }
        Ok(rows)
    }

    fn names(&mut self) -> Result<Names> {
        let links = self.rows(Kind::Link, 0)?;
        let named = |link: &RawMessage| Some((link.device(), link.ifname()?));
        Ok(links.iter().filter_map(named).collect())
    }

    /// Carries a line out by a message of our own; gives back the errno.
    pub(super) fn carry_out(&mut self, command: &Command) -> Result<i32> {
        let names = self.names()?;
        let indexes = names
            .into_iter()
            .map(|(index, name)| (name, index))
            .collect();
        match command {
            Command::Message(message) => match message.body(&indexes) {
                Ok(body) => self.request(message.message_type, message.flags, &body),
                Err(_) => Ok(ENODEV),
            },
            Command::FlushAddresses { dev, family } => {
                let Some(index) = indexes.get(dev).copied() else {
                    return Ok(ENODEV);
                };
                for family in [INET, INET6]
                    .into_iter()
                    .filter(|f| *family == 0 || f == family)
                {
                    let of_dev = |row: &RawMessage| row.device() == index;
                    self.delete_all(Kind::Address, family, of_dev)?;
                }
                Ok(0)
            }
            Command::FlushRoutes {
                family,
                table,
                protocol,
                dev,
            } => {
                let index = dev
                    .as_ref()
                    .map(|dev| indexes.get(dev).copied().unwrap_or(0));
                self.delete_all(Kind::Route, *family, |row| {
                    row.table() == Some(*table)
                        && protocol.is_none_or(|protocol| row.protocol() == Some(protocol))
                        && index.is_none_or(|index| row.device() == index)
                })?;
                Ok(0)
            }
            Command::Sysctl { .. } => Err(trouble("sysctl cannot stand here")),
        }
    }

    /// As `ip` flushes: each row is sent back with the type changed. One may take others along.
    fn delete_all(
        &mut self,
        kind: Kind,
        family: u8,
        which: impl Fn(&RawMessage) -> bool,
    ) -> Result<()> {
        for row in self.rows(kind, family)?.iter().filter(|row| which(row)) {
            let mut body = row.header.clone();
            for (number, payload) in &row.attrs {
                crate::message::push_attribute(&mut body, *number, payload);
            }
            self.request(kind.new_type() + 1, 0, &body)?;
        }
        Ok(())
    }
}

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes.get(..HEADER)?, 0) as usize;
        let message = (u16_at(bytes, 4), u16_at(bytes, 6), bytes.get(HEADER..len)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

fn errno_of(body: &[u8]) -> i32 {
    body.first_chunk::<4>()
        .map_or(0, |code| i32::from_ne_bytes(*code))
}

/// A kernel to run on.
pub(super) struct Machine {
    place: Place,
    pub(super) wire: Wire,
    watch: Wire,
    /// Interfaces by index, as of any time.
    names: Names,
    /// As last announced: links are announced also when their carrier alone moved.
    links: HashMap<u32, RawMessage>,
    /// Whether the scenario has switched duplicate address detection on, which takes a second or two.
    detects: bool,
}

enum Place {
    /// The namespace of the calling thread.
    Kernel,
    Fake(fake::Kernel),
}

impl Machine {
    /// The running kernel, in the namespace of the calling thread, which must stay the one that uses this.
    pub(super) fn kernel() -> Result<Machine> {
        Machine::new(Place::Kernel)
    }

    pub(super) fn fake() -> Result<Machine> {
        Machine::new(Place::Fake(fake::Kernel::new()))
    }

    fn new(place: Place) -> Result<Machine> {
        let namespace = namespace(&place);
        let mut watch = Wire::open(&namespace)?;
        // Refused beyond a limit; the default holds a few hundred announcements.
        let _best_effort = watch.transport.set_receive_buffer(4 << 20);
        for group in Group::OBJECTS.into_iter().chain([Group::NEXTHOP]) {
            watch
                .transport
                .join(group)
                .map_err(|error| trouble(format!("joining a group: {error}")))?;
        }
        let mut machine = Machine {
            wire: Wire::open(&namespace)?,
            watch,
            names: Names::new(),
            links: HashMap::new(),
            detects: false,
            place,
        };
        machine.names()?;
        for link in machine.wire.rows(Kind::Link, 0)?.iter().filter_map(stable) {
            machine.links.insert(link.device(), link);
        }
        Ok(machine)
    }

    /// What trueup is given.
    pub(super) fn namespace(&self) -> Namespace {
        namespace(&self.place)
    }

    /// The namespace goes, and an empty one takes its place. Its cookie is another: the fake's is where it lies in memory, and
    /// the old one lies there until the new one does.
    pub(super) fn recreate(&mut self) -> Result<()> {
        let place = match self.place {
            Place::Fake(_) => Place::Fake(fake::Kernel::new()),
            Place::Kernel => {
                quiet_netns();
                Place::Kernel
            }
        };
        let mut new = Machine::new(place)?;
        let former = std::mem::take(&mut self.names).into_iter();
        for (index, name) in former {
            new.names.entry(index).or_insert(name);
        }
        *self = new;
        Ok(())
    }

    /// Major and minor number.
    pub(super) fn version(&self) -> (u32, u32) {
        match self.place {
            Place::Fake(_) => fake::VERSION,
            Place::Kernel => running_version(),
        }
    }

    /// Interfaces by index, with those that were there before.
    pub(super) fn names(&mut self) -> Result<&Names> {
        let now = self.wire.names()?;
        self.names.extend(now);
        Ok(&self.names)
    }

    /// Somebody acts: lines in order, each with the outcome that it says.
    pub(super) fn act(&mut self, acts: &[Act]) -> Result<()> {
        let real = matches!(self.place, Place::Kernel) && has_ip();
        let acts = acts
            .iter()
            .map(|act| self.resolved(act))
            .collect::<Result<Vec<_>>>()?;
        let mut rest = acts.as_slice();
        while let Some((act, after)) = rest.split_first() {
            let batched = |act: &Act| {
                real && !act.raw && act.errno.is_none() && tool(act) == Some(Tool::Batch)
            };
            let together = rest.iter().take_while(|act| batched(act)).count();
            if together > 0 {
                let (batch, after) = rest.split_at(together);
                ip_batch(batch)?;
                rest = after;
                continue;
            }
            rest = after;
            self.act_alone(act, real)
                .map_err(|trouble| trouble.at(act.line))?;
        }
        Ok(())
    }

    /// The line with the indexes that it names.
    pub(super) fn resolved(&mut self, act: &Act) -> Result<Act> {
        if !act.text.contains('@') {
            return Ok(act.clone());
        }
        let names = self.names()?;
        let index = |name: &str| Some(*names.iter().find(|(_, known)| *known == name)?.0);
        let text = super::resolved(&act.text, index)
            .map_err(|name| trouble(format!("there never was a {name}")).at(act.line))?;
        let command = super::command::parse(&text, act.raw)
            .map_err(|fault| trouble(fault.message).at(act.line))?;
        Ok(Act {
            text,
            command,
            ..act.clone()
        })
    }

    fn act_alone(&mut self, act: &Act, real: bool) -> Result<()> {
        if let Command::Sysctl { name, value } = &act.command {
            return self.sysctl(name, value);
        }
        if real && !act.raw {
            let said = spoken(act);
            match (said, act.errno) {
                (Ok(()), None) => return Ok(()),
                (Err(told), None) => return Err(trouble(format!("`{}` failed: {told}", act.text))),
                (Ok(()), Some(code)) => {
                    return Err(trouble(format!(
                        "`{}` succeeded, {} was expected",
                        act.text,
                        errno::name(code)
                    )));
                }
                // It failed, as it should; `ip` does not tell the number, so it is asked for once more.
                (Err(_), Some(_)) => {}
            }
        }
        let got = self.wire.carry_out(&act.command)?;
        if got == act.errno.unwrap_or(0) {
            return Ok(());
        }
        let name = |code: i32| {
            if code == 0 {
                "success".to_owned()
            } else {
                errno::name(code)
            }
        };
        Err(trouble(format!(
            "`{}` ended in {}, {} was expected",
            act.text,
            name(got),
            name(act.errno.unwrap_or(0))
        )))
    }

    fn sysctl(&mut self, name: &str, value: &str) -> Result<()> {
        self.detects |= name.ends_with("accept_dad") && value != "0";
        match &self.place {
            Place::Fake(kernel) => kernel.sysctl(name, value).map_err(trouble),
            Place::Kernel => {
                let path = format!("/proc/sys/{}", name.replace('.', "/"));
                fs::write(&path, value).map_err(|error| trouble(format!("{path}: {error}")))
            }
        }
    }

    /// All rows of a kind, of one family or (0) of all that it is dumped by.
    pub(super) fn rows(&mut self, kind: Kind, family: u8) -> Result<Vec<RawMessage>> {
        let families: &[u8] = match (kind, family) {
            (Kind::Link | Kind::Nexthop, _) => &[0],
            (_, 0) => &[INET, INET6],
            _ => &[family],
        };
        let mut rows = Vec::new();
        for family in families {
            rows.extend(self.wire.rows(kind, *family)?);
        }
        Ok(rows)
    }

    /// Everything there is, as configuration.
    pub(super) fn everything(&mut self) -> Result<Vec<RawMessage>> {
        self.rest()?;
        let mut all = Vec::new();
        for kind in Kind::ALL {
            all.extend(self.rows(kind, 0)?.iter().filter_map(stable));
        }
        all.sort();
        Ok(all)
    }

    /// What was announced since the last call, as configuration: without links that are as they were, and without the
    /// kernel's own traffic. Waits until no more follows: what a change sets off in the kernel may take a few
    /// milliseconds.
    pub(super) fn announced(&mut self) -> Result<Vec<RawMessage>> {
        self.rest()?;
        let quiet = match self.place {
            Place::Fake(_) => 1,
            Place::Kernel => 3,
        };
        let mut all = Vec::new();
        let mut still = 0;
        let end = Instant::now() + Duration::from_secs(10);
        while still < quiet && Instant::now() < end {
            still += 1;
            while let Some(datagram) = self.watch.take()? {
                still = 0;
                for (kind, _, body) in messages(&datagram) {
                    all.extend(RawMessage::parse(kind, body).as_ref().and_then(stable));
                }
            }
            if still < quiet {
                thread::sleep(Duration::from_millis(3));
            }
        }
        let names = all
            .iter()
            .filter_map(|row| Some((row.device(), row.ifname()?)));
        self.names.extend(names);
        const AF_BRIDGE: u8 = 7;
        let links = &mut self.links;
        all.retain(|row| match row.kind {
            // A port is announced a second time with a part of its attributes.
            Kind::Link if row.family() == AF_BRIDGE => false,
            Kind::Link => links.insert(row.device(), row.clone()).as_ref() != Some(row),
            _ => true,
        });
        Ok(all)
    }
}

fn namespace(place: &Place) -> Namespace {
    match place {
        Place::Kernel => Namespace::current(),
        Place::Fake(kernel) => kernel.namespace(),
    }
}

/// Whether the running kernel has a kind of link, asked in the namespace of the calling thread.
pub(super) fn has_link(kind: &str) -> bool {
    let text = match kind {
        "veth" => "link add probe0 type veth peer name probe1".to_owned(),
        // On no link: lo would refuse it with the errno of a kind that is not known.
        "vlan" => "link add probe0 type vlan id 7".to_owned(),
        "macvlan" => "link add link lo name probe0 type macvlan".to_owned(),
        "vrf" => "link add probe0 type vrf table 7".to_owned(),
        "vxlan" => "link add probe0 type vxlan id 7 dstport 4789".to_owned(),
        _ => format!("link add probe0 type {kind}"),
    };
    const EOPNOTSUPP: i32 = 95;
    let asked = super::command::parse(&text, false)
        .ok()
        .and_then(|command| {
            let mut wire = Wire::open(&Namespace::current()).ok()?;
            let code = wire.carry_out(&command).ok()?;
            let delete = super::command::parse("link del probe0", false).ok()?;
            wire.carry_out(&delete).ok()?;
            Some(code)
        });
    asked.is_some_and(|code| code != EOPNOTSUPP)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// `ip -batch -`.
    Batch,
    /// `ip`, a process for the line: `ip -batch` knows no options.
    Ip,
    /// `bridge`.
    Bridge,
}

fn tool(act: &Act) -> Option<Tool> {
    if matches!(act.command, Command::Sysctl { .. }) {
        return None;
    }
    let text = act.text.trim_start_matches("ip ");
    Some(match text.split(' ').next() {
        Some("bridge") => Tool::Bridge,
        Some("-4" | "-6") => Tool::Ip,
        _ => Tool::Batch,
    })
}

/// Whether there is iproute2: in a small machine there may be another `ip`, or none, and lines are sent as messages. So
/// they are with `TRUEUP_SCENARIOS_IP=0`, to see on the running kernel that they are read as `ip` reads them.
fn has_ip() -> bool {
    use std::sync::OnceLock;
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        if std::env::var("TRUEUP_SCENARIOS_IP").is_ok_and(|asked| asked == "0") {
            return false;
        }
        let told = Process::new("ip").arg("-V").output();
        told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("iproute2"))
    })
}

fn ip_batch(acts: &[Act]) -> Result<()> {
    let lines: Vec<_> = acts
        .iter()
        .map(|act| act.text.trim_start_matches("ip "))
        .collect();
    run("ip", &["-batch", "-"], &lines.join("\n")).map_err(|told| {
        // `Command failed -:3`
        let at = told
            .rsplit_once("-:")
            .and_then(|(_, n)| n.trim().parse::<usize>().ok());
        let act = at.and_then(|n| acts.get(n - 1)).or(acts.first());
        Trouble {
            line: act.map(|act| act.line),
            message: told,
        }
    })
}

/// One line by the tool that it is of.
fn spoken(act: &Act) -> Result<(), String> {
    let words = super::command::Words::new(&act.text).map_err(|fault| fault.message)?;
    let mut words = words.rest();
    let tool = match words.first() {
        Some(&"bridge") => words.remove(0),
        Some(&"ip") => words.remove(0),
        _ => "ip",
    };
    run(tool, &words, "")
}

fn run(tool: &str, args: &[&str], input: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{tool}, of Debian's package iproute2: {error}");
    let mut child = Process::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Far below what a pipe holds.
        let _early_end = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
