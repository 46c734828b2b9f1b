//! Correct files: the meaning of each key, and the reference in `README.md`, whose examples are all
//! read here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trueup_file::{File, Location, Settings, TableNames};
use trueup_net::{
    DEFAULT_PROTOCOL, Family, FwMark, Kind, Lifetimes, LinkKind, Metric, NextHop, NextHops,
    Ownership, Prefix, RouteType, Routes, RuleAction, Scope,
};

fn read(text: &str) -> File {
    let mut tables = TableNames::default();
    tables.add("100 blue");
    let file = File::parse("f.toml", text.as_bytes(), &tables);
    file.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the one object of a section.
fn only<T: std::fmt::Debug>(list: Option<impl IntoIterator<Item = T>>) -> T {
    match list.map(|list| <[T; 1]>::try_from(list.into_iter().collect::<Vec<_>>())) {
        Some(Ok([object])) => object,
        other => panic!("{other:?}"),
    }
}

fn route(keys: &str) -> trueup_net::Route<trueup_net::IfName> {
    let routes = read(&format!("[[route]]\n{keys}")).desired.routes;
    only(routes.map(|routes| routes.iter().collect::<Vec<_>>()))
}

fn rule(keys: &str) -> trueup_net::Rule {
    only(read(&format!("[[rule]]\npriority = 5\n{keys}")).desired.rules)
}

#[test]
fn an_absent_section_is_unmanaged_and_an_empty_one_is_none_of_ours() {
    let file = read("route = []\nprotocol = 98\n");
    assert_eq!(file.settings.protocol, 98);
    assert_eq!(file.desired.routes, Some(Routes::new()));
    assert_eq!(file.desired.links, None);
    assert_eq!(read("link = []").settings.protocol, DEFAULT_PROTOCOL);
}

#[test]
fn a_file_that_says_nothing_of_ownership_leaves_it_to_the_command() {
    let settings = read("route = []").settings;
    assert_eq!(settings, Settings::default());
    assert_eq!((settings.protocol, settings.grace), (116, None));
}

#[test]
fn what_holds_for_the_whole_file_becomes_settings() {
    let toml = "protocol = 117\nadopt = true\non_conflict = \"take\"\ngrace = 2.5\nlink = []\n\
                [ownership]\nroute = \"marker\"\nrule = \"ledger\"\nlink = \"ledger\"\n";
    let json = r#"{ "ownership": { "route": "marker", "rule": "ledger", "link": "ledger" },
        "grace": 25e-1, "on_conflict": "take", "adopt": true, "link": [], "protocol": 117 }"#;
    let inline = "ownership = { route = \"marker\", rule = \"ledger\", link = \"ledger\" }\nlink = []\n\
                  grace = +2.50\nadopt = true\non_conflict = 'take'\nprotocol = 0x75\n";
    let expected = Settings::default()
        .with_protocol(117)
        .with_adopt(true)
        .with_take(true)
        .with_grace(Duration::from_millis(2500))
        .with_ownership(BTreeMap::from([
            (Kind::Route, Ownership::Marker),
            (Kind::Rule, Ownership::Ledger),
            (Kind::Link, Ownership::Ledger),
        ]));
    for text in [toml, json, inline] {
        let file = File::parse("f", text.as_bytes(), &TableNames::default());
        let file = file.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(file.settings, expected, "{text}");
    }
}

#[test]
fn a_grace_may_be_none_or_a_day() {
    let grace = |text: &str| read(&format!("grace = {text}\nroute = []")).settings.grace;
    for (text, seconds) in [("0", 0), ("0.0", 0), ("86400", 86400), ("8.64e4", 86400), ("0x10", 16)]
    {
        assert_eq!(grace(text), Some(Duration::from_secs(seconds)), "{text}");
    }
    assert_eq!(grace("1_0.5_0"), Some(Duration::from_millis(10_500)));
}

#[test]
fn single_objects_are_adopted() {
    let file = read(
        "rule = [ { priority = 1, table = 1 }, { priority = 2, table = 1, adopt = true } ]\n\
         [[route]]\ndst = \"10.0.0.0/8\"\ndev = \"a\"\nadopt = true\n[[link]]\nname = \"a\"\n\
         adopt = false\n[ownership]\nroute = \"ledger\"\n[[route]]\ndst = \"11.0.0.0/8\"\n\
         dev = \"a\"\n",
    );
    let rules = file.desired.rules.unwrap();
    let adopted: Vec<_> = rules.adopted().iter().map(|key| key.priority).collect();
    assert_eq!((rules.len(), adopted), (2, vec![2]));
    assert!(file.desired.links.unwrap().adopted().is_empty());
    let routes = file.desired.routes.unwrap();
    let adopted: Vec<_> = routes.adopted().iter().map(|key| key.dst.to_string()).collect();
    assert_eq!((routes.len(), adopted), (2, vec!["10.0.0.0/8".to_owned()]));
    assert_eq!(file.settings.ownership.len(), 1);
    assert!(!file.settings.adopt);
}

#[test]
fn places_are_those_of_the_objects_starts() {
    let file = read(
        "rule = [ { priority = 1, table = 1 },\n  { priority = 2, table = 1 } ]\n\n \
         [[route]] # ä\ndst = \"10.0.0.0/8\"\ndev = \"a\"\r\n[[link]]\nname = \"a\"\n",
    );
    let at = |kind, index| file.locations.at(kind, index).map(|p| (p.line, p.column));
    assert_eq!(at(Kind::Rule, 0), Some((1, 10)));
    assert_eq!(at(Kind::Rule, 1), Some((2, 3)));
    assert_eq!(at(Kind::Route, 0), Some((4, 2)));
    assert_eq!(at(Kind::Link, 0), Some((7, 1)));
    assert_eq!(at(Kind::Link, 1), None);
    let location = Location { line: 4, column: 2 };
    let error = trueup_file::Error::at("f.toml", Some(location), "no device `a`");
    assert_eq!(error.to_string(), "f.toml:4:2: no device `a`");
}

#[test]
fn the_default_route_has_the_family_that_the_rest_tells() {
    let family = |keys: &str| route(&format!("dst = \"default\"\n{keys}")).dst;
    let (v4, v6) = (Prefix::default_route(Family::Inet), Prefix::default_route(Family::Inet6));
    assert_eq!(family("via = \"10.0.0.1\""), v4);
    assert_eq!(family("via = \"fe80::1\"\ndev = \"a\""), v6);
    assert_eq!(family("via = \"fe80::1\"\nfamily = \"inet\""), v4);
    assert_eq!(family("via = \"fe80::1\"\nsrc = \"10.0.0.1\""), v4);
    assert_eq!(family("dev = \"a\"\nfrom = \"2001:db8::/32\""), v6);
    assert_eq!(family("type = \"blackhole\"\nfamily = \"inet6\""), v6);
    assert_eq!(family("nexthops = [ { via = \"10.0.0.1\" }, { via = \"10.0.0.2\" } ]"), v4);
}

#[test]
fn nexthops_may_be_inline_or_sections_of_their_own() {
    let inline = route(
        "dst = \"10.0.0.0/8\"\nnexthops = [ { via = \"10.0.0.1\", weight = 2 },\n\
         { dev = \"a\", via = \"fe80::1\", onlink = true } ]",
    );
    let sections = route(
        "dst = \"10.0.0.0/8\"\n[[route.nexthops]]\nvia = \"10.0.0.1\"\nweight = 2\n\
         [[route.nexthops]]\ndev = \"a\"\nvia = \"fe80::1\"\nonlink = true",
    );
    assert_eq!(inline, sections);
    let NextHops::Many(hops) = inline.nexthops else {
        panic!("{inline:?}");
    };
    assert_eq!(hops[0], NextHop::via("10.0.0.1".parse().unwrap()).with_weight(2));
    assert!(hops[1].onlink && hops[1].dev == Some("a".parse().unwrap()));
}

#[test]
fn a_route_is_of_table_main_and_unicast_unless_said_otherwise() {
    let plain = route("dst = \"10.0.0.1\"\ndev = \"a\"");
    assert_eq!((plain.table, plain.kind, plain.metric), (254, RouteType::Unicast, 0));
    assert_eq!((plain.dst.len(), plain.scope), (32, None));
    let full = route(
        "dst = \"10.0.0.0/8\"\ndev = \"a\"\ntable = \"blue\"\ntos = \"0x10\"\nscope = \"link\"\n\
         mtu = \"lock 1400\"\nadvmss = 1360\ncongctl = \"cubic\"\nmetric = 0xff",
    );
    assert_eq!((full.table, full.tos, full.scope), (100, 16, Some(Scope::LINK)));
    assert_eq!(full.metrics.value(Metric::Mtu), Some(1400));
    assert_eq!(full.metrics.value(Metric::AdvMss), Some(1360));
    assert_eq!((full.metrics.lock(), full.metric), (1 << 2, 255));
    assert_eq!(full.metrics.congctl(), Some("cubic"));
    assert_eq!(route("dst = \"10.0.0.0/8\"\ndev = \"a\"\nscope = 7").scope, Some(Scope(7)));
}

#[test]
fn a_rule_without_a_mask_masks_nothing_and_l3mdev_needs_no_table() {
    let marked = rule("fwmark = \"0x7\"\ntable = 1000000");
    let mark = |mark, mask| Some(FwMark { mark, mask });
    assert_eq!(marked.fwmark, mark(7, u32::MAX));
    assert_eq!(marked.action, RuleAction::Lookup(1_000_000));
    assert_eq!(rule("fwmark = 7\nfwmask = 255\ntable = 1").fwmark, mark(7, 255));
    let vrf = rule("l3mdev = true\nfamily = \"inet6\"");
    assert_eq!((vrf.action, vrf.family), (RuleAction::Lookup(0), Family::Inet6));
    assert!(!rule("l3mdev = false\ntable = 3").l3mdev);
    let ports = rule("sport = 53\ndport = \"1000-2000\"\nipproto = \"udp\"\ngoto = 6");
    assert_eq!(ports.sport, Some((53..=53).into()));
    assert_eq!(ports.dport, Some((1000..=2000).into()));
    assert_eq!((ports.ipproto, ports.action), (Some(17), RuleAction::Goto(6)));
    assert_eq!(rule("to = \"2001:db8::/32\"\ntable = 1").family, Family::Inet6);
}

#[test]
fn an_address_is_preferred_as_long_as_it_is_valid() {
    let lifetimes = |keys: &str| {
        let text = format!("[[address]]\ndev = \"a\"\naddress = \"10.0.0.1/24\"\n{keys}");
        let address = only(read(&text).desired.addresses);
        let Lifetimes { valid, preferred } = address.lifetimes;
        (valid, preferred)
    };
    assert_eq!(lifetimes(""), (u32::MAX, u32::MAX));
    assert_eq!(lifetimes("valid_lft = 600"), (600, 600));
    assert_eq!(lifetimes("preferred_lft = 0"), (u32::MAX, 0));
    assert_eq!(lifetimes("valid_lft = \"forever\"\npreferred_lft = 9"), (u32::MAX, 9));
}

#[test]
fn a_name_that_is_not_utf8_is_a_list_of_bytes() {
    let text = "[[link]]\nname = [ 255, 97 ]\nalias = [ 254 ]\nmaster = \"\"";
    let link = only(read(text).desired.links);
    assert_eq!(link.name.as_bytes(), [255, 97]);
    assert_eq!(link.alias.as_deref(), Some(&[254][..]));
    assert_eq!((link.master, link.kind), (Some(None), None));
}

#[test]
fn brackets_in_strings_comments_and_lists_open_no_section() {
    let text = "\u{feff}rule = [\r\n  # [[route]]\r\n]\r\n [[link]] # [[link]]\r\nname = \"a\"\r\n\
                alias = \"\"\"\n[[route]]\n\"\"\"\r\n[[link]]\nname = [\n97\n, # ]\n98]\n\
                alias = '''\n[[x'''";
    let links: Vec<_> = read(text).desired.links.unwrap().into_iter().collect();
    assert_eq!(links[0].alias.as_deref(), Some(&b"[[route]]\n"[..]));
    assert_eq!(links[1].name.as_bytes(), b"ab");
    assert_eq!(links[1].alias.as_deref(), Some(&b"[[x"[..]));
}

#[test]
fn a_group_and_a_peer_fill_the_same_field_of_a_vxlan() {
    let remote = |key: &str| {
        let text = format!("[[link]]\nname = \"v\"\nkind = \"vxlan\"\nid = 1\nlink = \"a\"\n{key}");
        match only(read(&text).desired.links).kind {
            Some(LinkKind::Vxlan(vxlan)) => vxlan.remote,
            other => panic!("{other:?}"),
        }
    };
    let group = "239.0.0.1".parse().ok();
    assert_eq!(remote("group_address = \"239.0.0.1\""), group);
    assert_eq!(remote("remote = \"10.0.0.1\""), "10.0.0.1".parse().ok());
}

#[test]
fn a_sysctl_is_one_key_however_it_is_written() {
    let key = |text: &str| text.parse::<trueup_sysctl::Key>().unwrap();
    let pairs = [
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv4.conf.eth0/100.rp_filter", "0"),
        ("net.core.somaxconn", "4096"),
        ("net.ipv4.ip_local_port_range", "40000 50000"),
    ];
    let expected = trueup_sysctl::Desired::parse(pairs).unwrap();
    for text in [
        "[sysctl]\nnet.ipv4.ip_forward = 1\nnet.ipv4.conf.\"eth0.100\".rp_filter = 0\n\
         net.core.somaxconn = 4096\nnet.ipv4.ip_local_port_range = \"40000 50000\"",
        "[sysctl]\n\"net.ipv4.ip_forward\" = true\n\"net.ipv4.conf.eth0/100.rp_filter\" = false\n\
         'net/core/somaxconn' = '4096'\n'net.ipv4.ip_local_port_range' = \" 40000\\t50000 \"",
        "sysctl.net.ipv4.ip_forward = 1\nsysctl.\"net/ipv4/conf/eth0.100/rp_filter\" = 0\n\
         sysctl.net.core = { somaxconn = 0x1000 }\n\
         sysctl.net.ipv4 . ip_local_port_range = \"40000 50000\"",
        "sysctl = { net = { ipv4 = { ip_forward = 1, conf.'eth0.100'.rp_filter = 0,\n\
         ip_local_port_range = \"40000 50000\" }, core.somaxconn = 4096 } }",
        "{ \"sysctl\": { \"net.ipv4.ip_forward\": 1, \"net\": { \"core\": { \"somaxconn\": 4096 },\n\
         \"ipv4\": { \"conf\": { \"eth0.100\": { \"rp_filter\": false } },\n\
         \"ip_local_port_range\": \"40000 50000\" } } } }",
    ] {
        let file = read(text);
        assert_eq!(file.sysctl.as_ref(), Some(&expected), "{text}");
        assert_eq!(file.desired, trueup_net::Desired::default());
        let locations = pairs.map(|(name, _)| file.locations.of_sysctl(&key(name)));
        assert!(locations.iter().all(Option::is_some), "{locations:?}");
    }
    let file =
        read("route = []\n[sysctl]\n  net.ipv4.a = 1 # \u{e4}\nnet.core.b = 1\nnet.ipv4.c = 1");
    let location = |name: &str| file.locations.of_sysctl(&key(name)).map(|p| (p.line, p.column));
    assert_eq!(location("net.ipv4.a"), Some((3, 3)));
    assert_eq!(location("net.core.b"), Some((4, 1)));
    assert_eq!(location("net.ipv4.c"), Some((5, 1)));
    assert_eq!(location("net.ipv4.d"), None);
}

#[test]
fn absent_sysctls_are_unmanaged_and_an_empty_table_is_none_of_ours() {
    assert_eq!(read("route = []").sysctl, None);
    for text in ["[sysctl]", "sysctl = {}", "{ \"sysctl\": {} }"] {
        let file = read(text);
        assert_eq!(file.sysctl, Some(trueup_sysctl::Desired::default()));
        assert!(!file.settings.sysctl_revert);
    }
    let file = read("sysctl_revert = true\n[sysctl]\n[[link]]\nname = \"a\"\n[ownership]");
    assert!(file.settings.sysctl_revert);
    assert_eq!(file.desired.links.map(|links| links.len()), Some(1));
}

#[test]
fn a_file_may_have_many_sysctls() {
    let devices = 0..3000;
    let each = |n| format!("net.ipv4.conf.v{n}.rp_filter = 1\n\"net.ipv6.conf.v{n}.mtu\" = 1500\n");
    let text: String = devices.map(each).collect();
    let sysctls = read(&format!("[sysctl]\n{text}")).sysctl.unwrap();
    assert_eq!(sysctls.len(), 6000);
}

/// Returns the keys that an error lists for an unknown one.
fn known(text: &str) -> BTreeSet<String> {
    let message = match File::parse("f", text.as_bytes(), &TableNames::default()) {
        Ok(file) => panic!("{text} is taken for {file:?}"),
        Err(error) => error.to_string(),
    };
    let keys = message.rsplit("one of ").next().unwrap_or_default();
    keys.split(", ").map(str::to_owned).collect()
}

/// The examples of the reference are correct, and it leaves no key out: each has a row in its
/// section's table and occurs in an example.
#[test]
fn the_reference_is_right_and_complete() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 6, "{}", blocks.len());
    for block in &blocks {
        read(block);
    }
    let has_row_and_example = |section: &str, key: &str| {
        let row = |line: &str| line.starts_with('|') && line.contains(&format!("`{key}`"));
        assert!(section.lines().any(row), "no row for {key}: {section}");
        let used = |line: &str| {
            format!(" {line}").contains(&format!(" {key} = ")) || line == format!("[{key}]")
        };
        assert!(section.lines().any(used), "no example of {key}: {section}");
    };
    let mut top = known("qqqqqqqq = 1");
    let mut sections = Kind::DECLARED.map(Kind::name).to_vec();
    sections.extend(["export", "collect", "file", "exec"]);
    assert!(sections.iter().all(|name| top.remove(*name)), "{top:?}");
    let section = text.split("\n## `link`\n").next().unwrap();
    top.iter().for_each(|key| has_row_and_example(section, key));
    for (title, header, count) in [("Domain", "domain", 9), ("World", "world", 15)] {
        let section = text.split(&format!("\n## {title}\n")).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let keys = known(&format!("[{header}]\nqqqqqqqq = 1"));
        assert_eq!(keys.len(), count, "{keys:?}");
        keys.iter().for_each(|key| has_row_and_example(section, key));
    }
    for name in sections {
        let keys = known(&format!(
            "[[{name}]]\nqqqqqqqq = 1\n[world]\nhost = \"a\"\nstore = \"embedded\""
        ));
        assert!(keys.len() >= 3, "{keys:?}");
        let section = text.split(&format!("\n## `{name}`\n")).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        keys.iter().for_each(|key| has_row_and_example(section, key));
    }
}

#[test]
fn a_peer_may_have_the_length_of_the_address() {
    for (address, peer) in [
        ("10.69.0.1/32", "10.69.0.2/32"),
        ("10.69.0.1", "10.69.0.2/32"),
        ("10.69.0.1/24", "10.69.0.2/24"),
        ("10.69.0.1/24", "10.69.0.2"),
        ("fd00::1", "fd00::2/128"),
    ] {
        let keys = format!("dev = \"a\"\naddress = \"{address}\"\npeer = \"{peer}\"");
        let read = only(read(&format!("[[address]]\n{keys}")).desired.addresses);
        let bare = peer.split('/').next().unwrap();
        assert_eq!(read.peer, Some(bare.parse().unwrap()), "{keys}");
    }
}
