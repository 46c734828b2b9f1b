//! Writes the corpus: the running kernel's messages, recorded in a fresh namespace, and texts from
//! the documentation. `cargo xtask fuzz --seeds` runs it; commit only inputs that a target does not
//! have yet.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trueup_file::{File, TableNames};
use trueup_graph::{Made, Record};
use trueup_net::{BondAttrs, BondMode, Dev, Kind, Link, LinkKind, VlanAttrs};
use trueup_netlink::codec::{address, existing, link, neighbour, nexthop, route, rule};
use trueup_netlink::wire::{
    Attrs, HEADER_LEN, Header, Messages, NLM_F_ACK, NLM_F_DUMP, NLMSG_DONE,
};
use trueup_netlink::{Group, Namespace, Transport};
use trueup_reconcile::{Ledger as _, MemoryLedger, PassInput, Source as _};
use trueup_rtnl::Rtnl;

/// The objects to dump: some of everything that the model knows. A line that this kernel refuses is
/// skipped.
const STATE: &str = "
link add br0 type bridge forward_delay 400
link add v0 type veth peer name v1
link add v2 type veth peer name v3
link add dum0 type dummy
link add ifb0 type ifb
link add vx0 type vxlan id 7 dstport 4789 local 10.1.0.1 remote 10.1.0.2 dev v2 ttl 9
link add mv0 link v2 type macvlan mode bridge
link add vl0 link v2 type vlan id 5
link add bond0 type bond mode active-backup miimon 100
link add vrf0 type vrf table 77
link set v0 master br0 alias uplink group 7
link set v1 mtu 1400 up
link set v2 up
link set v3 up
link set v0 up
link set br0 up
address add 10.1.0.1/24 dev v2 label v2:one
address add 10.1.0.5/24 dev v2 valid_lft 1000 preferred_lft 500
address add 10.9.0.1 peer 10.9.0.2/32 dev v3 scope link
address add fd00:1::1/64 dev v2 nodad metric 300
address add fd00:1::5/64 dev v2 nodad valid_lft 1000 preferred_lft 0
neighbour add 10.1.0.9 lladdr 02:00:00:00:00:09 dev v2 nud permanent protocol 116
neighbour add fd00:1::9 lladdr 02:00:00:00:00:09 dev v2 nud permanent router
neighbour add 10.1.0.8 lladdr 02:00:00:00:00:08 dev v2 nud noarp
neighbour add 10.1.0.7 lladdr 02:00:00:00:00:07 dev v2 nud reachable extern_learn
neighbour add proxy 10.1.0.6 dev v2 protocol 116
neighbour add proxy fd00:1::6 dev v2
nexthop add id 5 via 10.1.0.9 dev v2
nexthop add id 6 blackhole
nexthop add id 7 group 5
route add 10.2.0.0/16 via 10.1.0.9 dev v2 metric 100 protocol 116 mtu 1400 advmss 1360
route add 10.3.0.0/16 metric 5 nexthop via 10.1.0.9 weight 2 nexthop via 10.1.0.8 weight 1
route add blackhole 10.4.0.0/16 protocol 116
route add unreachable 10.4.0.0/16 table 300 metric 9
route add 10.5.0.0/16 via inet6 fd00:1::9 dev v2 tos 8
route add 10.6.0.0/16 via 203.0.113.1 dev v2 onlink src 10.1.0.1 congctl reno
route add 10.7.0.0/16 nhid 5
route add 10.8.0.0/16 nhid 7
route add fd00:2::/48 via fd00:1::9 dev v2 metric 50 protocol 116 pref high
route add fd00:3::/48 nexthop via fd00:1::9 weight 3 nexthop via fd00:1::8
route add fd00:4::/48 from fd00:1::/64 via fd00:1::9 dev v2
route add blackhole fd00:5::/48 protocol 116 expires 600
rule add priority 1000 from 10.1.0.0/24 table 100 protocol 116
rule add priority 1001 to 10.2.0.0/16 fwmark 7/0xff table 300 protocol 116
rule add priority 1002 not iif v2 oif v3 goto 2000 protocol 116
rule add priority 1003 ipproto tcp sport 5-9 dport 80 uidrange 0-0 table 100
rule add priority 1004 l3mdev
rule add priority 1005 tos 8 blackhole protocol 116
rule add priority 2000 table main suppress_prefixlength 0 suppress_ifgroup 3
-6 rule add priority 1000 from fd00:1::/64 table 100 protocol 116
-6 rule add priority 1001 prohibit protocol 116
";

/// Changes that the kernel also announces.
const CHANGES: &str = "
link set v1 down
address delete 10.9.0.1 peer 10.9.0.2/32 dev v3
neighbour delete 10.1.0.8 dev v2
route delete 10.2.0.0/16
route delete fd00:2::/48
rule delete priority 1003
link delete ifb0
link set v0 nomaster
";

fn main() {
    trueup_testkit::enter().unwrap();
    trueup_testkit::quiet_netns();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut recorder = Recorder { corpus, transport: Namespace::current().connect().unwrap() };
    recorder.transport.prepare_requests().unwrap();
    recorder.texts();
    let bare = recorder.dump_all();
    let mut events = Namespace::current().connect().unwrap();
    for group in Group::OBJECTS {
        events.join(group).unwrap();
    }
    run(STATE);
    let whole = recorder.dump_all();
    recorder.bodies(&whole);
    recorder.streams(&bare, &whole);
    run(CHANGES);
    recorder.events(&mut *events);
    recorder.answers();
    recorder.ledgers();
    recorder.journals();
}

fn run(lines: &str) {
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let done = Command::new("ip").args(line.split(' ')).output().unwrap();
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr);
            println!("passed over: ip {line}: {}", why.trim_end());
        }
    }
}

struct Recorder {
    corpus: PathBuf,
    transport: Box<dyn Transport>,
}

/// Returns a request with its type and fixed part.
fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        length: (HEADER_LEN + body.len()) as u32,
        kind,
        flags: 1 | flags,
        sequence,
        port: 0,
    };
    [&header.to_bytes()[..], body].concat()
}

/// Returns a message with another sequence number.
fn numbered(message: &[u8], sequence: u32) -> Vec<u8> {
    let mut message = message.to_vec();
    message[8..12].copy_from_slice(&sequence.to_ne_bytes());
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

impl Recorder {
    fn save(&self, target: &str, name: &str, bytes: &[u8]) {
        let folder = self.corpus.join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    /// Receives all available messages, whole, up to one that ends an exchange.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        drain(&mut *self.transport).iter().flat_map(|datagram| split(datagram)).collect()
    }

    /// Returns the rows of all dumps in a snapshot.
    fn dump_all(&mut self) -> Vec<Vec<u8>> {
        let mut rows = Vec::new();
        let heads: [(u16, usize); 6] = [
            (link::GET, 16),
            (address::GET, 8),
            (neighbour::GET, 12),
            (route::GET, 12),
            (rule::GET, 12),
            (nexthop::GET, 8),
        ];
        for (kind, length) in heads {
            let whole = [link::GET, nexthop::GET].contains(&kind);
            let families: &[u8] = if whole { &[0] } else { &[2, 10] };
            for &family in families {
                for proxy in [false, true] {
                    let mut head = vec![0; length];
                    head[0] = family;
                    if proxy {
                        if kind != neighbour::GET {
                            continue;
                        }
                        head[10] = 8; // NTF_PROXY
                    }
                    if kind == link::GET {
                        // IFLA_EXT_MASK: no counters.
                        head.extend([8, 0, 29, 0, 8, 0, 0, 0]);
                    }
                    let request = request(kind, NLM_F_DUMP, 0, &head);
                    self.transport.send(&request).unwrap();
                    let answer = self.receive();
                    rows.extend(answer.into_iter().filter(|m| kind_of(m) == kind - 2));
                }
            }
        }
        rows
    }

    /// Saves a body for each set of attributes seen.
    fn bodies(&self, rows: &[Vec<u8>]) {
        let targets = [
            (link::NEW, 16, "link"),
            (address::NEW, 8, "address"),
            (neighbour::NEW, 12, "neighbour"),
            (route::NEW, 12, "route"),
            (rule::NEW, 12, "rule"),
            (nexthop::NEW, 8, "nexthop"),
        ];
        for (kind, fixed, target) in targets {
            let mut seen = BTreeSet::new();
            let made = encoded();
            for row in rows.iter().chain(&made).filter(|row| kind_of(row) == kind) {
                let body = &row[HEADER_LEN..];
                let attrs: Vec<_> = Attrs::new(&body[fixed..]).map(|(n, p)| (n, p.len())).collect();
                if seen.insert((body[0], attrs)) {
                    self.save(target, &format!("real-{:02}", seen.len()), body);
                    let place = Kind::ALL.iter().position(|it| it.name() == target).unwrap();
                    let packet = [&[place as u8][..], body].concat();
                    self.save("packet", &format!("real-{target}-{:02}", seen.len()), &packet);
                }
            }
        }
    }

    /// Saves streams of one kind each, short enough for good mutations, and a bare namespace's
    /// whole.
    fn streams(&self, bare: &[Vec<u8>], whole: &[Vec<u8>]) {
        let slim = |rows: &[Vec<u8>]| rows.iter().map(|row| slim(row)).collect::<Vec<_>>();
        let (bare, whole) = (slim(bare), slim(whole));
        self.save("dump", "real-bare", &bare.concat());
        for kind in [link::NEW, address::NEW, neighbour::NEW, route::NEW, rule::NEW] {
            let rows: Vec<_> = whole.iter().filter(|row| kind_of(row) == kind).collect();
            for (at, rows) in rows.chunks(4).enumerate() {
                let stream: Vec<u8> = rows.iter().flat_map(|row| row.iter().copied()).collect();
                self.save("dump", &format!("real-{kind}-{at}"), &stream);
                self.save("datagram", &format!("real-{kind}-{at}"), &stream);
            }
        }
        let links: Vec<_> = whole.iter().filter(|row| kind_of(row) == link::NEW).collect();
        let links: Vec<u8> = links.iter().flat_map(|row| row.iter().copied()).collect();
        for (name, kind, text) in FILES {
            let rows: Vec<_> = whole.iter().filter(|row| kind_of(row) == kind).collect();
            for (at, rows) in rows.chunks(12).enumerate() {
                let rows: Vec<u8> = rows.iter().flat_map(|row| row.iter().copied()).collect();
                let pass = [text.as_bytes(), &[0], &links, &rows].concat();
                self.save("pass", &format!("real-{name}-{at}"), &pass);
            }
            let pass = [text.as_bytes(), &[0], &bare.concat()].concat();
            self.save("pass", &format!("bare-{name}"), &pass);
        }
    }

    fn events(&self, transport: &mut dyn Transport) {
        let mut seen = BTreeSet::new();
        for datagram in drain(transport) {
            let kinds: Vec<_> = split(&datagram)
                .iter()
                .map(|m| (kind_of(m), m.get(HEADER_LEN).copied(), m.len() / 64))
                .collect();
            if seen.insert(kinds) && seen.len() <= 40 {
                self.save("event", &format!("real-{:02}", seen.len()), &datagram);
            }
        }
    }

    /// Saves ledgers of a pass in which everything is ours only by the ledger, one kind at a time,
    /// with the kernel's objects of that kind.
    fn ledgers(&mut self) {
        let file = File::parse("seeds", LEDGER.as_bytes(), &TableNames::default()).unwrap();
        let options = trueup_fuzz::options(&file.settings).unwrap();
        let mut ledger = MemoryLedger::default();
        let here = Namespace::current();
        let report =
            Rtnl::new().reconcile(PassInput::new(&here, &file.desired, &mut ledger, &options));
        let report = report.unwrap();
        for (done, failure) in report.failed() {
            println!("passed over: {:?}: {failure}", done.op.object);
        }
        let rows: Vec<_> = self.dump_all().iter().map(|row| slim(row)).collect();
        let mut kinds = vec![link::NEW];
        kinds.extend([address::NEW, neighbour::NEW, route::NEW, rule::NEW]);
        for (kind, new) in Kind::DECLARED.into_iter().zip(kinds) {
            let begins = format!("{{\"{kind}\":");
            let mut lines = Vec::new();
            for (key, record) in ledger.owned().unwrap() {
                if key.starts_with(begins.as_bytes()) {
                    lines.extend([&key[..], b"\t", &record, b"\n"].concat());
                }
            }
            let rows = rows.iter().filter(|row| [link::NEW, new].contains(&kind_of(row)));
            let rows: Vec<u8> = rows.flat_map(|row| row.iter().copied()).collect();
            let file = format!("ownership = {{ {kind} = \"ledger\" }}\n{kind} = []\n");
            let whole = [&lines[..], &[0], file.as_bytes(), &[0], &rows].concat();
            self.save("ledger", &format!("real-{kind}"), &whole);
            let open =
                lines.split_inclusive(|byte| *byte == b'\n').map(|line| [b"?", line].concat());
            let open = open.collect::<Vec<_>>().concat();
            let whole = [&open[..], &[0], file.as_bytes(), &[0], &rows].concat();
            self.save("ledger", &format!("open-{kind}"), &whole);
        }
    }

    /// Saves journals that do not open, and changes to a good journal.
    fn journals(&self) {
        let mut head = b"\0trueup-journal\n\0".to_vec();
        self.save("journal", "head-short", &head);
        head.resize(8192, 0);
        self.save("journal", "head-zeros", &head[..600]);
        self.save("journal", "good", &[1]);
        // The head, its two marks, redb's part, and a cut.
        for (name, at) in [("head", 3), ("mark", 512), ("god", 4096 + 9), ("slot", 4096 + 64)] {
            let [_, a, b, c] = u32::to_be_bytes(at);
            self.save("journal", &format!("changed-{name}"), &[1, a, b, c, 1]);
        }
        self.save("journal", "cut", &[1, 0, 0x20, 0, 0]);
        // A backoff, an intent, a key, an owned value, a nonce, an operation and an expiry,
        // emptied; then a key and an operation with each number of a state.
        for which in [0, 1, 16, 18, 27, 28, 30] {
            self.save("record", &format!("empty-{which}"), &[which]);
        }
        for state in 0..6 {
            let mut value = [0; 60];
            (value[0], value[1]) = (16, state);
            self.save("record", &format!("key-{state}"), &value[..22]);
            (value[0], value[1], value[9]) = (28, 0, state);
            self.save("record", &format!("operation-{state}"), &value[..42]);
        }
    }

    /// Saves the kernel's answers to bad requests, and to a good one.
    fn answers(&mut self) {
        let attr = |number: u16, payload: &[u8]| {
            let length = (4 + payload.len()) as u16;
            let mut bytes = [length.to_ne_bytes(), number.to_ne_bytes()].concat();
            bytes.extend(payload);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let route = |attrs: &[Vec<u8>]| {
            let head = [2, 24, 0, 0, 254, 116, 0, 1, 0, 0, 0, 0];
            [&head[..], &attrs.concat()].concat()
        };
        let dst = attr(1, &[10, 1, 2, 0]);
        let create = 0x600;
        let requests = [
            // No such gateway; a metric too large; an attribute cut short; an unknown attribute.
            (24, create, route(&[dst.clone(), attr(5, &[203, 0, 113, 1])])),
            (24, create, route(&[dst.clone(), attr(8, &attr(10, &[0xff; 4]))])),
            (24, create, route(&[attr(1, &[10, 1]), attr(4, &[2, 0])])),
            (24, create, route(&[dst.clone(), attr(999, &[1])])),
            (24, create, route(&[dst.clone(), attr(8, &attr(200, &[0; 4]))])),
            // Nothing to delete; a link without a name; a missing kind; too short.
            (25, 0, route(&[dst])),
            (17, 0, vec![0; 16]),
            (16, create, [vec![0; 16], attr(3, b"x\0"), attr(18, &attr(1, b"no-such\0"))].concat()),
            (20, create, vec![2, 24, 0, 0, 0, 0, 0, 0]),
            (32, create, vec![2; 3]),
            (32, 0, [vec![2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], attr(6, &[9; 4])].concat()),
            // An acknowledgement.
            (19, 0, [vec![0, 0, 0, 0, 1, 0, 0, 0], vec![0; 8]].concat()),
        ];
        let mut all = Vec::new();
        for (at, (kind, flags, body)) in requests.iter().enumerate() {
            let bytes = request(*kind, flags | NLM_F_ACK, 0, body);
            self.transport.send(&bytes).unwrap();
            let answer = self.receive();
            for how in [0_u8, 5] {
                let seed = [&[how], &answer.concat()[..]].concat();
                self.save("ack", &format!("real-{at:02}-{how}"), &seed);
            }
            all.extend(answer);
        }
        for count in [1, 3, 8_u8] {
            let some = all.iter().rev().take(count.into()).enumerate();
            let stream: Vec<_> = some.flat_map(|(at, m)| numbered(m, at as u32)).collect();
            self.save("batch", &format!("real-{count}"), &[&[count - 1], &stream[..]].concat());
        }
        let last = [&[7], &numbered(&all[all.len() - 1], 7)[..]].concat();
        self.save("batch", "real-last", &last);
    }

    fn texts(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let edge = fs::read(root.join("docs/examples/edge.toml")).unwrap();
        self.save("file", "edge.toml", &edge);
        for (name, _, text) in FILES {
            self.save("file", name, text.as_bytes());
        }
        let page = fs::read_to_string(root.join("crates/agent/file/README.md")).unwrap();
        for (at, block) in page.split("```toml\n").skip(1).enumerate() {
            let block = block.split("```").next().unwrap_or_default();
            self.save("file", &format!("page-{at:02}"), block.as_bytes());
        }
        let json = br#"{"protocol": 116, "route": [{"dst": "10.0.0.0/8", "type": "blackhole"}],
            "rule": [{"priority": 1000, "from": "10.1.0.0/24", "fwmark": 7, "table": 100}]}"#;
        self.save("file", "json", json);
        let told = [
            r#"a{ "dst": "10.20.1.0/24", "via": "10.0.0.11" }"#,
            r#"b{ "dst": "10.20.1.128/25", "via": "10.0.0.12", "metric": 7 }"#,
            r#"b{ "dst": "fd00:1::/64", "nexthops": [ { "via": "fd00::1", "weight": 3 }, { "via": "fd00::2" } ] }"#,
            r#"a{ "dst": "default", "via": "10.0.0.1" }"#,
        ];
        self.save("resource", "routes", told.join("\n").as_bytes());
        let names =
            ["blue", "pid:1", "pid:4294967295", "/proc/1/ns/net", "./x", "..", "a.b", "pid:"];
        for (at, name) in names.iter().enumerate() {
            self.save("namespace", &format!("{at}"), name.as_bytes());
        }
        let made = Made {
            place: 7,
            after: vec!["file.resolv".into()],
            undo: [&[1, 1], &[9; 32][..], b"/etc/resolv.conf"].concat().into(),
        };
        let (refreshes, intent) = (3, vec!["exec.reload".into(), "".into()]);
        for (name, made) in [("made", Some(made.clone())), ("refreshes", None)] {
            let intent = intent.clone();
            let record = Record { refreshes, intent, made };
            self.save("graph", name, &record.to_bytes());
        }
        self.save("graph", "file", &made.undo);
        self.save("graph", "first-version", &[1, 0, 0, 0, 7, 0, 0, 0, 1, b'a']);
        for (target, name, text) in CONTROL {
            self.save(target, name, text.as_bytes());
        }
        let head = format!("trueup1.{}", "00112233445566778899aabbccddeeff".repeat(2));
        let unsigned = format!("{head}{}00000000000f4240", "07".repeat(16));
        self.save("token", "unsigned", unsigned.as_bytes());
        let signed = unsigned + &"ab".repeat(64);
        self.save("token", "signed", signed.as_bytes());
        let list = r#"{ "serial": 7, "grants": [ { "host": "a", "prefixes": [ "10.20.1.0/24" ] }, { "host": "b", "prefixes": [ "10.20.2.0/24", "fd00:2::/48" ] } ] }"#;
        self.save("grants", "list", list.as_bytes());
        let list = r#"{"serial":7,"begins":1800000000,"ends":1800000060,"grants":[{"host":"a","prefixes":["10.20.1.0/24"]}]}"#;
        let signed = format!("{}\n{list}", "0".repeat(128));
        self.save("grants", "signed", signed.as_bytes());
        for (at, (range, entry)) in WORLD.iter().enumerate() {
            let entry = [&[*range], entry.as_bytes()].concat();
            self.save("world", &format!("{at}"), &entry);
        }
        for (at, sysctl) in SYSCTLS.iter().enumerate() {
            self.save("sysctl", &format!("{at}"), sysctl.as_bytes());
        }
    }
}

/// Records, a desired state and a token of an agent with a backend.
const CONTROL: [(&str, &str, &str); 11] = [
    (
        "operation",
        "create",
        r#"{"version":1,"key":"vm7","verb":"create","changes":[{"field":"memory","old":null,"new":{"text":"1"}},{"field":"password","old":null,"new":"secret"}],"run_state":null,"reason":"it is desired and not there","request":"op-1-2-3","job":false,"again":true,"started":1000}"#,
    ),
    (
        "operation",
        "run-state",
        r#"{"version":1,"key":"vm7","verb":"set_run_state","changes":[],"run_state":{"field":"run_state","old":{"text":"stopped"},"new":{"text":"running"}},"reason":"","request":"op-1-2-3","job":false,"again":false,"started":18446744073709551615}"#,
    ),
    (
        "operation",
        "job",
        r#"{"version":1,"key":"vm7","verb":{"other":"snapshot"},"changes":[],"run_state":null,"reason":"requested","request":"op-1-2-3","job":true,"again":false,"started":999999999}"#,
    ),
    (
        "operation",
        "another-key",
        r#"{"version":1,"key":"vm8","verb":"destroy","changes":[],"run_state":null,"reason":"","request":"r","job":false,"again":false,"started":1}"#,
    ),
    (
        "guests",
        "file",
        "[guests.web]\nstate = \"running\"\nmemory = \"32MiB\"\ndescription = \"x\"\n\
         disks.root = { size = 1000001, bps = \"10MB\", iops = 0, backups = [\"a\"] }\n\
         nics.lan.mac = \"52:54:00:AB:cd:ef\"\n",
    ),
    ("guests", "key", "web/disk/root/backup/nightly"),
    ("guests", "task", "web:3f0c:backup:root:nightly"),
    ("desired", "empty", r#"{}"#),
    (
        "desired",
        "one",
        r#"{"vm7": {"fields": {"memory": "2048", "password": {"secret": "x"}}, "run_state": "running"}}"#,
    ),
    ("desired", "twice", r#"{"a": {}, "b": {"fields": {}}, "a": {}}"#),
    ("token", "short", r#"trueup1.00"#),
];

/// A range of the world's keys, a key in it, and a value.
const WORLD: [(u8, &str); 9] = [
    (0, "b/route/pods\0via 10.0.0.1"),
    (0, "a/route/%00%2F\0"),
    (1, "a/%/%\0x"),
    (2, "b/session\0{\"owner\":\"b\",\"session\":\"1\"}"),
    (2, "b/offers/s\0"),
    (3, "\0{\"hosts\":[\"a\"],\"last\":null}"),
    (
        4,
        "00000000000000000001\0{\"number\":1,\"parent\":null,\"files\":{\"a\":{\"size\":0,\"chunks\":[]}}}",
    ),
    (5, "\0 5"),
    (6, "\0world:deploy/1/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad/a"),
];

/// A key, its desired value, and the kernel's value.
const SYSCTLS: [&str; 8] = [
    "net.ipv4.ip_forward\n1\n0\n",
    "net/ipv4/conf/eth0.100/rp_filter\n0x2\n2\n",
    "net.ipv4.ip_local_port_range\n 40000\t50000 \n32768\t60999\n",
    "net.ipv4.ip_local_reserved_ports\n1,2,3,8080-8090\n1-3,8080-8090\n",
    "net.ipv4.tcp_allowed_congestion_control\ncubic reno\nreno cubic\n",
    "net.ipv6.conf.eth0/100.stable_secret\n2001:db8::1\n2001:0db8:0000:0000:0000:0000:0000:0001\n",
    "net.core.rps_default_mask\n010\n10\n",
    "net.ipv4.conf.lo.forwarding\n-0\n074\n",
];

/// Returns requests for links of kinds that some kernels lack.
fn encoded() -> Vec<Vec<u8>> {
    let below = Dev::index(3);
    let kinds = [
        LinkKind::Dummy,
        LinkKind::Vlan(VlanAttrs::new(below, 5)),
        LinkKind::Bond(BondAttrs::default().with_mode(BondMode::ActiveBackup).with_miimon(100)),
        LinkKind::Vrf { table: 77 },
    ];
    let made = kinds.map(|kind| {
        let mut link = Link::new("x0".parse().unwrap(), kind);
        link.mtu = Some(1400);
        let mut message = Vec::new();
        link.index = 9;
        link::create(&mut message, &link, 0, &existing).unwrap();
        message
    });
    made.into()
}

/// Files, each with the kind of object that it declares.
const FILES: [(&str, u16, &str); 6] = [
    (
        "links",
        link::NEW,
        "[[link]]\nname = \"br0\"\nkind = \"bridge\"\nup = true\nmtu = 1400\n\n[[link]]\nname = \"v0\"\n\
         kind = \"veth\"\npeer = \"v1\"\nmaster = \"br0\"\n\n[[link]]\nname = \"vx9\"\nkind = \"vxlan\"\nid = 9\n",
    ),
    (
        "addresses",
        address::NEW,
        "[[address]]\ndev = \"v2\"\naddress = \"10.1.0.1/24\"\nlabel = \"v2:one\"\n\n\
         [[address]]\ndev = \"lo\"\naddress = \"fd00:7::1/64\"\nvalid_lft = 90\npreferred_lft = 40\n",
    ),
    (
        "neighbours",
        neighbour::NEW,
        "[[neighbour]]\ndev = \"v2\"\ndst = \"10.1.0.9\"\nlladdr = \"02:00:00:00:00:0a\"\n\n\
         [[neighbour]]\ndev = \"v2\"\ndst = \"10.1.0.66\"\nproxy = true\n",
    ),
    (
        "routes",
        route::NEW,
        "[[route]]\ndst = \"10.2.0.0/16\"\nvia = \"10.1.0.8\"\nmetric = 100\n\n[[route]]\ndst = \"default\"\n\
         family = \"inet6\"\ntype = \"blackhole\"\n\n[[route]]\ndst = \"10.3.0.0/16\"\nmetric = 5\n\
         nexthops = [ { via = \"10.1.0.9\", weight = 2 }, { via = \"10.1.0.8\" } ]\n",
    ),
    (
        "rules",
        rule::NEW,
        "[[rule]]\npriority = 1000\nfrom = \"10.1.0.0/24\"\ntable = 100\n\n\
         [[rule]]\npriority = 1007\nfwmark = 7\nfwmask = 255\ntable = 300\n",
    ),
    ("none", route::NEW, "route = []\nrule = []\naddress = []\nneighbour = []\nlink = []\n"),
];

/// Objects of every kind: some exist, some are another writer's, some are missing.
const LEDGER: &str = r#"
adopt = true
on_conflict = "take"
ownership = { link = "ledger", address = "ledger", neighbour = "ledger", route = "ledger", rule = "ledger" }
link = [ { name = "v2", kind = "veth", mtu = 1480 }, { name = "n0", kind = "veth", peer = "n1" } ]
address = [ { dev = "v2", address = "10.1.0.1/24", label = "v2:one" }, { dev = "v2", address = "fd00:7::1/64" } ]
neighbour = [ { dev = "v2", dst = "10.1.0.9", lladdr = "02:00:00:00:00:0a" }, { dev = "v2", dst = "10.1.0.66", proxy = true } ]
route = [ { dst = "10.3.0.0/16", metric = 5, via = "10.1.0.8" }, { dst = "fd00:9::/48", type = "blackhole" } ]
rule = [ { priority = 1001, family = "inet6", action = "prohibit" }, { priority = 1009, fwmark = 7, table = 300 } ]
"#;

fn drain(transport: &mut dyn Transport) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut buffer = Vec::with_capacity(1 << 18);
    // Requests are executed before `send` returns; the kernel continues a dump as its parts are
    // read.
    while transport.receive(&mut buffer).is_ok() {
        datagrams.push(buffer.clone());
    }
    datagrams
}

/// Returns a datagram's messages, padded, without sequence and port; leaves out the end.
fn split(datagram: &[u8]) -> Vec<Vec<u8>> {
    Messages::new(datagram)
        .filter(|message| message.header.kind != NLMSG_DONE)
        .map(|message| {
            let header = Header { sequence: 0, port: 0, ..message.header };
            let mut bytes = [&header.to_bytes()[..], message.body].concat();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        })
        .collect()
}

/// Returns a link without most of the attributes that are not read, such as the settings of its
/// address families.
fn slim(message: &[u8]) -> Vec<u8> {
    const KEPT: [u16; 9] = [1, 3, 4, 5, 10, 18, 20, 27, 37];
    if kind_of(message) != link::NEW {
        return message.to_vec();
    }
    let (fixed, attrs) = message.split_at(HEADER_LEN + 16);
    let mut slim = fixed.to_vec();
    let mut rest = attrs;
    while let Some((number, payload)) = Attrs::new(rest).next() {
        let length = (4 + payload.len()).next_multiple_of(4).min(rest.len());
        if KEPT.contains(&number) {
            slim.extend_from_slice(&rest[..length]);
        }
        rest = &rest[length..];
    }
    let length = slim.len() as u32;
    slim[..4].copy_from_slice(&length.to_ne_bytes());
    slim
}

fn kind_of(message: &[u8]) -> u16 {
    u16::from_ne_bytes([message[4], message[5]])
}
