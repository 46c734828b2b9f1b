//! Values that the kernel stores differently than written, or checks against its current state.

use trueup::Source as _;
use trueup::reconcile::{ErrorClass, PassInput, Report as _};
use trueup::rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_file::{File, TableNames};
use trueup_testkit::{Action, Changes, Kind, assert_no_changes, ip, ip_batch, veth_pair};

use crate::agent::Agent;

/// Renames `lo`, so that the program does not know the rules for its neighbours.
pub(crate) fn rename_loopback() {
    ip_batch(["link set lo down", "link set lo name loop0", "link set loop0 up"]);
}

pub(crate) fn neighbour(lladdr: &str) -> String {
    format!("[[neighbour]]\ndev = \"loop0\"\ndst = \"10.1.0.9\"\nlladdr = \"{lladdr}\"")
}

pub(crate) fn what_the_kernel_would_store_otherwise_is_refused_with_its_place() {
    veth_pair("v0", "v1");
    let agent = Agent::new();
    let cases = [
        ("address", "dev = \"v0\"\naddress = \"10.3.0.1/24\"\nnodad = true", "nodad"),
        ("address", "dev = \"v0\"\naddress = \"10.3.0.1/24\"\nhome = true", "home"),
        ("address", "dev = \"v0\"\naddress = \"10.3.0.1/24\"\nmngtmpaddr = true", "mngtmpaddr"),
        ("address", "dev = \"v0\"\naddress = \"fd03::1/64\"\npeer = \"::\"", "peer"),
        ("route", "dst = \"10.5.0.0/16\"\ndev = \"v0\"\nvia = \"0.0.0.0\"", "via"),
        ("route", "dst = \"fd05::/64\"\ndev = \"v0\"\nvia = \"::\"", "via"),
        ("route", "dst = \"10.5.0.0/16\"\ndev = \"v0\"\nsrc = \"0.0.0.0\"", "src"),
        ("route", "dst = \"fd05::/64\"\ndev = \"v0\"\nsrc = \"::\"", "src"),
        ("link", "name = \"b0\"\nkind = \"bridge\"\nalias = \"a\\u0000b\"", "NUL"),
        ("link", "name = \"b0\"\nkind = \"bridge\"\naddress = \"02:00:00:00:00:09:01\"", "6 bytes"),
        (
            "link",
            "name = \"m0\"\nkind = \"macvlan\"\nlink = \"v0\"\nmode = \"passthru\"\n\
             address = \"02:00:00:00:00:09\"",
            "passthru",
        ),
        ("link", "name = \"x0\"\nkind = \"vxlan\"\nid = 1\nremote = \"::\"", "unspecified"),
        ("link", "name = \"b0\"\nkind = \"bridge\"\nstp = true\nforward_delay = 0", "200 to 3000"),
        (
            "link",
            "name = \"b0\"\nkind = \"bridge\"\nstp = true\nforward_delay = 3002",
            "200 to 3000",
        ),
        ("link", "name = \"b0\"\nkind = \"bridge\"\nforward_delay = 1501", "ticks"),
        ("link", "name = \"b0\"\nkind = \"bridge\"\nageing_time = 1", "ticks"),
        (
            "neighbour",
            "dev = \"lo\"\ndst = \"10.1.0.9\"\nlladdr = \"02:00:00:00:00:09\"",
            "loopback",
        ),
    ];
    for (section, keys, word) in cases {
        let text = format!("[[{section}]]\n{keys}");
        let ran = assert_no_changes(|| agent.apply(&text));
        let says = ran.err.contains("f.toml:1:1: ") && ran.err.contains(word);
        assert_eq!((ran.code, says), (1, true), "{text}\n{ran:?}");
    }
}

pub(crate) fn an_address_of_which_the_device_would_cut_off_the_end_waits_by_itself() {
    veth_pair("v0", "v1");
    let agent = Agent::new();
    let text = "[[link]]\nname = \"v0\"\naddress = \"02:00:00:00:00:09:01\"\n\
                [[neighbour]]\ndev = \"v0\"\ndst = \"10.1.0.9\"\nlladdr = \"02:00:00:00:00:09:01\"\n\
                [[address]]\ndev = \"v0\"\naddress = \"10.1.0.1/24\"\n";
    let report = agent.apply(text).json();
    let pending = report["pending"].as_array().unwrap();
    let longer = |op: &serde_json::Value| op["reason"].as_str().unwrap().contains("longer");
    assert!(pending.len() == 2 && pending.iter().all(longer), "{report}");
    assert_eq!(report["applied"].as_array().unwrap().len(), 1, "{report}");
}

pub(crate) fn what_is_stored_otherwise_fails_and_shows_both_forms() {
    rename_loopback();
    let agent = Agent::new();
    let ran = agent.apply(&neighbour("02:00:00:00:00:09"));
    let report = ran.json();
    assert_eq!((ran.code, &report["converged"]), (2, &false.into()));
    let failed = &report["failed"][0];
    assert_eq!(failed["class"], "stored_otherwise", "{report}");
    let desired = "10.1.0.9 lladdr 02:00:00:00:00:09 dev loop0 nud permanent protocol 116";
    assert_eq!(failed["desired"], desired, "{report}");
    assert_eq!(failed["stored"], serde_json::Value::Null, "{report}");
    assert_eq!(report["failed"].as_array().unwrap().len(), 1, "{report}");
}

pub(crate) fn what_is_stored_otherwise_is_written_once_until_it_changes() {
    rename_loopback();
    let desired = |lladdr| {
        let text = neighbour(lladdr);
        let file = File::parse("f.toml", text.as_bytes(), &TableNames::default());
        file.unwrap().desired
    };
    let (mut source, mut ledger) = (Rtnl::new(), MemoryLedger::default());
    let mut pass = |lladdr| {
        let (here, options) = (Namespace::current(), Options::default());
        let report =
            source.reconcile(PassInput::new(&here, &desired(lladdr), &mut ledger, &options));
        let report = report.unwrap();
        assert!(!report.converged());
        let classes = report.failed().map(|(_, why)| why.class);
        assert_eq!(classes.collect::<Vec<_>>(), [ErrorClass::StoredOtherwise], "{report:?}");
    };
    let written = |pass: &mut dyn FnMut()| {
        let mut changes = Changes::watch();
        pass();
        let announced = changes.take();
        let new = announced.iter().filter(|it| {
            it.action == Action::New && it.kind == Kind::Neighbour && it.protocol() == Some(116)
        });
        new.count()
    };
    assert_eq!(written(&mut || pass("02:00:00:00:00:09")), 1);
    for _ in 0..3 {
        assert_no_changes(|| pass("02:00:00:00:00:09"));
    }
    assert_eq!(written(&mut || pass("02:00:00:00:00:0a")), 1);
    assert_no_changes(|| pass("02:00:00:00:00:0a"));
}

pub(crate) fn a_bridge_gives_up_its_spanning_tree_before_it_gets_a_delay_without() {
    let agent = Agent::new();
    let bridge = |keys: &str| format!("[[link]]\nname = \"b0\"\nkind = \"bridge\"\n{keys}");
    agent.settle(&bridge("stp = true\nforward_delay = 200"));
    agent.settle(&bridge("stp = false\nforward_delay = 0"));
    agent.settle(&bridge("stp = true\nforward_delay = 3000"));
    agent.settle(&bridge("stp = false\nforward_delay = 3002\nageing_time = 102"));
    agent.settle(&bridge("stp = true\nforward_delay = 1500"));
}

pub(crate) fn a_time_of_a_bridge_that_is_one_less_is_not_in_place() {
    let agent = Agent::new();
    let bridge =
        |age: u32| format!("[[link]]\nname = \"b0\"\nkind = \"bridge\"\nageing_time = {age}");
    // With 0 the bridge learns nothing. No declared time may be taken for it.
    agent.settle(&bridge(0));
    let ran = agent.apply(&bridge(1));
    let says = ran.err.contains("f.toml:1:1: ") && ran.err.contains("an even one");
    assert_eq!((ran.code, says), (1, true), "{ran:?}");
    agent.settle(&bridge(2));
    let shown = ip(&["-d", "link", "show", "b0"]);
    assert!(shown.contains("ageing_time 2 "), "{shown}");
}

pub(crate) fn a_nearest_value_is_not_in_place() {
    let agent = Agent::new();
    let bridge =
        |delay: u32| format!("[[link]]\nname = \"b0\"\nkind = \"bridge\"\nforward_delay = {delay}");
    for (delay, kept) in [(0, 200), (3002, 3000)] {
        agent.settle(&bridge(delay));
        // If another writer enables the protocol, the kernel takes the nearest permitted delay.
        ip(&["link", "set", "b0", "type", "bridge", "stp_state", "1"]);
        let shown = ip(&["-d", "link", "show", "b0"]);
        assert!(shown.contains(&format!("forward_delay {kept} ")), "{shown}");
        let ran = agent.apply(&bridge(delay));
        let failed = &ran.json()["failed"][0];
        assert_eq!((ran.code, &failed["class"]), (2, &"invalid".into()), "{ran:?}");
        ip(&["link", "set", "b0", "type", "bridge", "stp_state", "0"]);
    }
}
