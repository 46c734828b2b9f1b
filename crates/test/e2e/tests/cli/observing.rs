//! `observe`: a plan of its output has nothing to do.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use trueup_testkit::{
    Kind, RawMessage, assert_no_changes, fresh_netns, ip, ip_batch, quiet_netns, raw_dump, uplinks,
    veth_pair,
};

use crate::agent::{Agent, Ran};

/// Fills the namespace with everything iproute2 can make, as far as every kernel has the kind.
fn rich_namespace() {
    uplinks(2);
    veth_pair("va", "vb");
    ip_batch([
        "link add br0 type bridge",
        "link set br0 up",
        // While ports come and go, a bridge with a spanning tree shows another ageing time.
        "link add br1 type bridge stp_state 1 forward_delay 400",
        "link set br1 up",
        "link set va master br0",
        "link set vb alias \"a name with \\ and 'quotes'\"",
        "link set vb group 7",
        "link set vb mtu 1400",
        "link add mv0 link up0 type macvlan mode bridge",
        "link add vx0 type vxlan id 42 local 10.200.0.1 remote 10.200.0.2 dstport 4789 nolearning",
        "link add ifb9 type ifb",
        "address add 10.7.0.1/24 brd + dev br0 label br0:one",
        "address add 10.7.0.2/24 dev br0",
        "address add 10.8.0.1 peer 10.8.0.2/32 dev vb",
        "address add 10.9.0.1/24 dev vb scope link",
        "address add fd00:7::1/64 dev br0 nodad noprefixroute",
        "address add fd00:8::1/64 dev br0 nodad valid_lft 5000 preferred_lft 4000",
        "neigh add 10.7.0.9 lladdr 02:00:00:00:00:07 dev br0 nud permanent",
        "neigh add fd00:7::9 lladdr 02:00:00:00:00:07 dev br0 nud permanent router",
        "neigh add proxy 10.7.0.77 dev br0",
        "neigh add proxy fd00:7::77 dev br0",
        "route add 10.20.0.0/16 via 10.200.0.2 metric 5 mtu 1300 proto static",
        "route add 10.21.0.0/16 nexthop via 10.200.0.2 weight 3 nexthop via 10.200.1.2",
        "route add 10.22.0.0/16 via 192.0.2.9 dev up0 onlink",
        "route add 10.23.0.0/16 via inet6 fd00:200::2 dev up0",
        "route add 10.24.0.0/16 dev up0 scope link src 10.200.0.1 tos 0x10",
        "route add blackhole 10.25.0.0/16",
        "route add throw 10.26.0.0/16 table 1000000",
        "route add default via 10.200.0.2 proto dhcp",
        "route add fd00:20::/64 via fd00:200::2 metric 5",
        "route add fd00:21::/64 nexthop via fd00:200::2 nexthop via fd00:200:1::2 weight 4",
        "route add unreachable fd00:25::/64",
        "route add default via fd00:200::2",
        "route add fd00:26::/64 from fd00:7::/64 via fd00:200::2",
        "rule add pref 100 from 10.7.0.0/24 lookup 1000000 protocol 116",
        "rule add pref 101 fwmark 7/0xff iif br0 blackhole protocol 116",
        "rule add pref 102 ipproto tcp dport 80-90 lookup main suppress_prefixlength 0 protocol 116",
        "rule add pref 103 not to 10.0.0.0/8 lookup 9 protocol 116",
    ]);
    for rule in [
        "pref 100 from fd00:7::/64 lookup 7 protocol 116",
        "pref 200 uidrange 0-0 lookup 7 protocol 116",
    ] {
        ip(&[&["-6", "rule", "add"][..], &rule.split(' ').collect::<Vec<_>>()].concat());
    }
}

fn observed(agent: &Agent, format: &str) -> Ran {
    let ran = assert_no_changes(|| agent.run(&["observe", "--format", format]));
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

pub(crate) fn a_plan_of_what_is_observed_is_empty() {
    rich_namespace();
    let agent = Agent::new();
    let toml = observed(&agent, "text");
    assert_eq!(toml.err, "", "nothing is left out");
    agent.assert_nothing_to_do(&toml.out);
    for word in [
        "name = \"lo\"\nup = true",
        "kind = \"macvlan\"",
        "id = 42",
        "forward_delay = 400",
        "label = \"br0:one\"",
        "peer = \"10.8.0.2\"",
        "tos = 16",
        "from = \"fd00:7::/64\"",
        "suppress_prefixlength = 0",
        "uidrange = ",
        "table = 1000000",
    ] {
        assert!(toml.out.contains(word), "{word}: {}", toml.out);
    }
    for kernels in ["127.0.0.1", "ff00::/8", "priority = 32766", "\"fe80::", "10.7.0.255/32"] {
        assert!(!toml.out.contains(kernels), "{kernels}: {}", toml.out);
    }
    // A lifetime may be a second shorter by now.
    let lasting = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains("_lft = "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        lasting(&observed(&agent, "text").out),
        lasting(&toml.out),
        "the same state, the same text"
    );

    let json = observed(&agent, "json");
    agent.write("f.json", &json.out);
    let plan = agent.run(&["plan", "f.json"]);
    assert_eq!((plan.code, plan.out.as_str()), (0, "nothing to do\n"), "{plan:?}");
    // Observed objects can be owned, and given up again.
    agent.settle(&toml.out);
}

pub(crate) fn what_a_file_cannot_say_is_left_out_and_told() {
    uplinks(1);
    ip_batch([
        "nexthop add id 7 via 10.200.0.2 dev up0",
        "route add 10.30.0.0/16 nhid 7",
        "route add 10.31.0.0/16 via 10.200.0.2",
        "neigh add 10.200.0.77 lladdr 02:00:00:00:00:77 dev up0 nud noarp",
        "rule add pref 77 from 10.0.0.0/8 lookup 5 protocol static",
    ]);
    let agent = Agent::new();
    let toml = observed(&agent, "text");
    assert!(!toml.out.contains("dst = \"10.30.0.0/16\""), "{}", toml.out);
    assert!(toml.out.contains("dst = \"10.31.0.0/16\""), "{}", toml.out);
    // A rule is accepted from any writer.
    assert!(toml.out.contains("priority = 77"), "{}", toml.out);
    for word in ["10.30.0.0/16", "10.200.0.77"] {
        let notes = |text: &str, mark: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(mark));
            lines.any(|line| line.contains(word))
        };
        assert!(notes(&toml.err, "trueup: left out: "), "{word}: {}", toml.err);
        assert!(notes(&toml.out, "# not here: "), "{word}: {}", toml.out);
    }
    agent.assert_nothing_to_do(&toml.out);
}

pub(crate) fn a_pair_that_ends_elsewhere_is_observed_as_it_is() {
    uplinks(1);
    let _other = trueup_testkit::named_netns("cli-far");
    ip(&["link", "add", "near", "type", "veth", "peer", "name", "far", "netns", "cli-far"]);
    ip(&["link", "add", "mv", "link", "up0", "netns", "cli-far", "type", "macvlan"]);
    let agent = Agent::new();
    let near = observed(&agent, "text");
    agent.assert_nothing_to_do(&near.out);
    let far = agent.run(&["observe", "--netns", "cli-far"]);
    assert!(far.out.contains("name = \"mv\""), "{}", far.out);
    agent.write("far.toml", &far.out);
    let plan = agent.run(&["plan", "far.toml", "--netns", "cli-far"]);
    assert_eq!(plan.out, "nothing to do\n", "{far:?} {plan:?}");
}

pub(crate) fn the_commands_of_what_is_observed_make_it_again() {
    rich_namespace();
    let agent = Agent::new();
    let toml = observed(&agent, "text").out;
    let commands = observed(&agent, "ip").out;
    trueup_testkit::quiet_netns();
    for line in commands.lines().filter(|line| !line.starts_with('#')) {
        // One at a time, as `ip -batch` has no option for a rule's family. The alias becomes one
        // word.
        let line = line.replace("\"a name with \\ and 'quotes'\"", "alias");
        ip(&line.split(' ').collect::<Vec<_>>());
    }
    let toml = toml.replace("a name with \\\\ and 'quotes'", "alias");
    let plan = agent.plan(&toml);
    assert_eq!(plan.json()["ops"].to_string(), "[]", "{plan:?}");
}

pub(crate) fn our_routes_over_nexthop_objects_are_observed() {
    uplinks(2);
    let agent = Agent::new();
    agent.settle(
        r#"
        nexthops = "objects"
        [[route]]
        dst = "10.20.0.0/16"
        via = "10.200.0.2"
        dev = "up0"
        [[route]]
        dst = "10.21.0.0/16"
        nexthops = [
            { via = "10.200.0.2", dev = "up0", weight = 3 },
            { via = "10.200.1.2", dev = "up1" },
        ]
        [[route]]
        dst = "10.22.0.0/16"
        dev = "up0"
        [[route]]
        dst = "fd00:20::/64"
        via = "fd00:200::2"
        dev = "up0"
        "#,
    );
    // Its output would not match a file of this shape.
    ip_batch([
        "nexthop add id 7 via 10.200.0.2 dev up0 proto static",
        "route add 10.30.0.0/16 nhid 7 proto static",
        "route add 10.31.0.0/16 via 10.200.0.2 proto static",
        "route add 10.32.0.0/16 dev up0 proto static",
    ]);
    let toml = observed(&agent, "text");
    for word in [
        "nexthops = \"objects\"",
        "dst = \"10.20.0.0/16\"",
        "dst = \"10.21.0.0/16\"",
        "dst = \"10.22.0.0/16\"",
        "dst = \"fd00:20::/64\"",
        "dst = \"10.32.0.0/16\"",
    ] {
        assert!(toml.out.contains(word), "{word}: {}", toml.out);
    }
    for word in ["10.30.0.0/16", "10.31.0.0/16"] {
        let reported = format!("left out: route {word}");
        assert!(toml.err.contains(&reported), "{word}: {}", toml.err);
    }
    let plan = agent.plan(&toml.out).json();
    assert_eq!(plan["ops"].to_string(), "[]", "{plan}");
    assert_eq!(plan["conflicts"].to_string(), "[]", "{plan}");

    let commands = observed(&agent, "ip").out;
    quiet_netns();
    ip_batch(commands.lines());
    let again = observed(&agent, "text");
    for line in ["nexthops = \"objects\"", "dst = \"10.21.0.0/16\""] {
        assert!(again.out.contains(line), "{line}: {}", again.out);
    }
}

pub(crate) fn the_commands_set_up_links_that_must_exist() {
    // Without /dev/net/tun, `lo` is the only such link.
    let tun = || {
        let args = ["tuntap", "add", "dev", "tun7", "mode", "tun"];
        let made = Command::new("ip").args(args).output().unwrap();
        made.status.success()
    };
    ip_batch([
        "link set lo up",
        "link set lo mtu 40000",
        "link set lo alias loop",
        "link set lo group 3",
    ]);
    let has_tun = tun();
    if has_tun {
        ip(&["link", "set", "tun7", "mtu", "1400", "up"]);
    }
    let agent = Agent::new();
    let before = observed(&agent, "text").out;
    let commands = observed(&agent, "ip").out;
    fresh_netns();
    if has_tun {
        tun();
        assert!(commands.contains("# link tun7"), "{commands}");
    }
    ip_batch(commands.lines());
    assert_eq!(observed(&agent, "text").out, before, "{commands}");
}

/// Returns every link's alias by its name, both as the kernel's bytes.
fn aliases() -> BTreeMap<Vec<u8>, Vec<u8>> {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_IFALIAS: u16 = 20;
    let text = |link: &RawMessage, number| {
        let value = link.attrs.get(&number).map_or(&[][..], Vec::as_slice);
        value.strip_suffix(&[0]).unwrap_or(value).to_vec()
    };
    let links = raw_dump(Kind::Link, 0);
    let links = links.iter();
    links.map(|link| (text(link, IFLA_IFNAME), text(link, IFLA_IFALIAS))).collect()
}

pub(crate) fn what_ip_batch_cannot_be_given_is_a_comment_and_never_another_name() {
    let make = |args: &[&[u8]]| {
        let args = args.iter().map(|arg| OsStr::from_bytes(arg));
        let made = Command::new("ip").args(args).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let names: [&[u8]; 6] =
        [b"x'y\"z", b"back\\", b"x\xff", b"h#sh", "\u{202e}0rb".as_bytes(), b"x\x1b[2J"];
    for name in names {
        make(&[b"link", b"add", b"name", name, b"type", b"bridge"]);
        make(&[b"link", b"set", b"dev", name, b"up"]);
    }
    make(&[b"addr", b"add", b"10.7.0.1/24", b"dev", b"x\xff"]);
    make(&[b"addr", b"add", b"10.8.0.1/24", b"dev", b"back\\"]);
    let said: [&[u8]; 5] =
        [b" lead and trail ", b"both\"'quotes", b"it's", b"end \\", "\u{e4}".as_bytes()];
    let unsaid: [&[u8]; 7] = [
        b"x#y",
        b"line\nlink del dev lo",
        b"tab\there",
        b"a\xffb",
        b"both \" 'quotes",
        "\u{202e}gnp".as_bytes(),
        b"$'x'",
    ];
    for (at, alias) in said.iter().chain(&unsaid).enumerate() {
        let name = format!("a{at}");
        make(&[b"link", b"add", b"name", name.as_bytes(), b"type", b"ifb"]);
        make(&[b"link", b"set", b"dev", name.as_bytes(), b"alias", alias]);
    }
    let agent = Agent::new();
    let before = aliases();
    let commands = observed(&agent, "ip").out;
    quiet_netns();
    ip_batch(commands.lines());
    let after = aliases();
    for (name, alias) in &after {
        let shown = String::from_utf8_lossy(name);
        assert!(before.contains_key(name), "a link {shown} out of nothing");
        assert!(alias.is_empty() || *alias == before[name], "{shown}: {alias:?}");
    }
    for name in &names[..2] {
        assert!(after.contains_key(*name), "{name:?}: {commands}");
    }
    for (at, alias) in said.iter().enumerate() {
        let there = after[format!("a{at}").as_bytes()].as_slice();
        assert_eq!(there, *alias, "{commands}");
    }
    assert!(ip(&["addr", "show"]).contains("10.8.0.1/24"), "{commands}");
    let comment = |words: &str| {
        let mut lines = commands.lines();
        assert!(
            lines.any(|line| line.starts_with("# ") && line.contains(words)),
            "{words}: {commands}"
        );
    };
    for words in [
        r"link add name $'x\xff'",
        r"addr add 10.7.0.1/24 dev $'x\xff'",
        r"link add name $'h#sh'",
        r"link add name $'\u202e0rb'",
        r"link add name $'x\x1b[2J'",
        r"alias $'x#y'",
        r"alias $'line\nlink del dev lo'",
        r"alias $'tab\there'",
        r"alias $'a\xffb'",
        r#"alias $'both " \'quotes'"#,
        r"alias $'\u202egnp'",
        r"alias $'$\'x\''",
    ] {
        comment(words);
    }
}

pub(crate) fn no_text_holds_a_character_that_a_terminal_obeys() {
    let agent = Agent::new();
    agent.write(
        "f.toml",
        "[[link]]\nname = \"b\"\nkind = \"bridge\"\nalias = \"\\u202egnp \\u001b[2J\"\n",
    );
    let check = |args: &[&str]| {
        let ran = agent.run(args);
        let harmful = |text: &str| text.contains(['\u{202e}', '\u{1b}']);
        assert!(!harmful(&ran.out), "{args:?}: {:?}", ran.out);
        assert!(!harmful(&ran.err), "{args:?}: {:?}", ran.err);
        ran
    };
    for format in ["text", "json", "ip"] {
        check(&["plan", "f.toml", "--format", format]);
    }
    check(&["apply", "f.toml"]);
    check(&["why", "link b"]);
    check(&["why", "link b", "--file", "f.toml"]);
    for format in ["text", "json", "ip"] {
        let ran = check(&["observe", "--format", format]);
        if format != "ip" {
            agent.write("again.toml", &ran.out);
            let plan = agent.run(&["plan", "again.toml"]);
            assert_eq!(plan.out, "nothing to do\n", "{ran:?}");
        }
    }
}

/// A user's selection of a host's objects, and the result on a sister host.
pub(crate) fn a_portable_file_converges_on_a_sister_host() {
    const FILE: &str = r#"protocol = 116

[[link]]
name = "br0"
kind = "bridge"
up = true

[[link]]
name = "mv0"
kind = "macvlan"
link = "va"
mode = "bridge"
up = true

[[link]]
name = "va"
kind = "veth"
peer = "vb"
up = true
mtu = 1400

[[link]]
name = "vb"
kind = "veth"
peer = "va"
up = true
master = "br0"

[[link]]
name = "vx0"
kind = "vxlan"
id = 42
port = 4789
learning = false

[[address]]
dev = "br0"
address = "10.7.0.1/24"

[[route]]
dst = "10.20.0.0/16"
via = "10.7.0.9"
dev = "br0"
"#;
    quiet_netns();
    ip_batch([
        "link set lo up",
        "link add br0 up type bridge",
        "link add va up type veth peer name vb",
        "link set vb up master br0",
        "link set va mtu 1400",
        "link add mv0 up link va type macvlan mode bridge",
        "link add vx0 type vxlan id 42 dstport 4789 nolearning",
        "address add 10.7.0.1/24 dev br0",
        "route add 10.20.0.0/16 via 10.7.0.9 proto 116",
    ]);
    let agent = Agent::new();
    let portable = |agent: &Agent| assert_no_changes(|| agent.run(&["observe", "--portable"]));
    let kept = |ran: &Ran| -> String {
        assert_eq!(ran.code, 0, "{ran:?}");
        let lines = ran.out.split_inclusive('\n');
        lines.filter(|line| !line.starts_with("# not here: ")).collect()
    };
    let printed = portable(&agent);
    assert_eq!(kept(&printed), FILE);
    // The output lists values missing from it, as another writer may have set them.
    for dev in ["br0", "va", "vb", "mv0", "vx0"] {
        assert!(printed.out.contains(&format!("# not here: link {dev}: ")), "{printed:?}");
    }
    assert!(!printed.out.contains("link lo"), "{printed:?}");

    quiet_netns();
    agent.write("sister.toml", FILE);
    let ran = agent.run(&["apply", "sister.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ip(&["link", "set", "lo", "up"]);
    assert_eq!(kept(&portable(&agent)), FILE);
}

/// Any property of a link without a key is named, unless it has the kernel's default.
pub(crate) fn what_a_link_has_without_a_key_is_named() {
    quiet_netns();
    ip_batch([
        "link add br0 up type bridge mcast_snooping 0 priority 4096",
        "link add va type veth peer name vb",
        "link set va up promisc on",
        "link set vb up allmulticast on master br0",
        "link set vb type bridge_slave hairpin on learning off",
        "link set vb txqueuelen 50",
        "link add vx0 type vxlan id 42 dstport 4789 tos 4",
    ]);
    let ran = observed(&Agent::new(), "text");
    for line in [
        "# not here: link br0: priority 4096, mcast_snooping 0, for which a file has no keys",
        "# not here: link va: promisc on, for which a file has no keys",
        "# not here: link vb: hairpin 1, learning 0, txqlen 50, allmulticast on, \
         for which a file has no keys",
        "# not here: link vx0: tos 4, for which a file has no keys",
    ] {
        assert!(ran.out.lines().any(|it| it == line), "{line}\n{ran:?}");
    }
    quiet_netns();
    ip_batch([
        "link add br0 up type bridge",
        "link add va type veth peer name vb",
        "link set vb up master br0",
        "link add vx0 type vxlan id 42 dstport 4789",
        "link add mv0 link va type macvlan mode bridge",
    ]);
    let ran = observed(&Agent::new(), "text");
    assert!(!ran.out.contains("# not here"), "{ran:?}");
}

/// The same as above, for kinds that some kernels lack.
pub(crate) fn the_options_of_a_bond_and_the_vlans_of_a_port_are_named() {
    quiet_netns();
    ip_batch([
        "link add br0 type bridge vlan_filtering 1",
        "link add va type veth peer name vb",
        "link set vb master br0",
        "link add bond0 type bond mode 802.3ad lacp_rate fast xmit_hash_policy layer3+4",
        "link add bond1 type bond mode 802.3ad",
        "link add v10 link va type vlan id 10",
        "link add v11 link va type vlan id 11 loose_binding on",
    ]);
    for vlan in ["10 dev vb untagged", "20 dev vb", "30 dev br0 self"] {
        let mut bridge = Command::new("bridge");
        let ran = bridge.args(["vlan", "add", "vid"]).args(vlan.split(' ')).status();
        assert!(ran.unwrap().success(), "{vlan}");
    }
    let ran = observed(&Agent::new(), "text");
    let named: Vec<_> = ran.out.lines().filter(|it| it.starts_with("# not here")).collect();
    let expected = [
        "# not here: link bond0: xmit_hash_policy 1, lacp_rate 1, for which a file has no keys",
        "# not here: link br0: vlan 30, for which a file has no keys",
        "# not here: link v11: flags, for which a file has no keys",
        "# not here: link vb: vlan 10 untagged, vlan 20, for which a file has no keys",
    ];
    assert_eq!(named, expected, "{ran:?}");
}
