//! Tests of the source on the running kernel.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod support;

use std::fs;
use std::process::Command;

use support::{Agent, describe, failed, key, read, write};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_sysctl::{
    Desired, ErrorClass, ErrorKind, Finding, MemoryLedger, Namespace, Options, Reason, Sysctl,
};
use trueup_testkit::{ip, model, named_netns, veth_pair, without_net_admin};

trueup_testkit::kernel_tests![
    values_come_and_stay_and_go_back,
    a_setting_that_moves_to_another_source_of_the_ledger_is_not_reverted,
    a_name_with_a_dot_is_one_part,
    what_all_copies_takes_one_pass,
    what_a_default_copies_takes_one_pass,
    an_ipv4_default_is_not_copied_to_a_device_that_has_or_had_an_ipv4_address,
    a_secret_turns_another_value_and_that_is_mended,
    what_the_kernel_makes_something_else_of_is_told_and_written_once,
    what_the_kernel_refuses_is_refused_alone,
    what_rests_on_another_value_takes_one_pass,
    an_order_and_a_directory_are_no_values,
    without_the_right_it_is_told_as_that,
    a_read_only_sysctl_is_invalid_and_no_matter_of_privilege,
    what_goes_and_comes_with_a_device_is_set_again,
    a_long_list_is_read_whole,
    two_namespaces_do_not_touch_each_other,
    a_namespace_made_anew_is_another,
    a_namespace_that_is_none_says_so,
    what_is_observed_is_what_the_namespace_has,
];

const FORWARD: &str = "net.ipv4.ip_forward";
const RANGE: &str = "net.ipv4.ip_local_port_range";

/// The first source covers the settings of `va`, the other one all others. Both share a ledger.
fn a_setting_that_moves_to_another_source_of_the_ledger_is_not_reverted() {
    veth_pair("va", "vb");
    let filter = "net.ipv4.conf.va.rp_filter";
    let before = read(filter);
    let (mut of_va, mut others) = (Sysctl::new(), Sysctl::new());
    let mut ledger = MemoryLedger::default();
    let options = Options::default().with_revert(true);
    let mut pass = |source: &mut Sysctl, desired: &Desired| {
        let report =
            source.reconcile(PassInput::new(&Namespace::current(), desired, &mut ledger, &options));
        let report = report.unwrap();
        assert!(report.converged(), "{}", describe(&report));
        report.ops().len()
    };
    let parse = || Desired::parse([(FORWARD, "1"), (filter, "2")]).unwrap();
    assert_eq!(pass(&mut others, &parse()), 2);
    let (of_device, rest) = parse().split(["va"]);
    assert_eq!((pass(&mut others, &rest), pass(&mut of_va, &of_device)), (0, 0));
    assert_eq!(read(filter), "2");
    // And back.
    assert_eq!(pass(&mut others, &parse()), 0);
    assert_eq!(read(filter), "2");
    let (of_device, rest) = Desired::default().split(["va"]);
    assert_eq!((pass(&mut others, &rest), pass(&mut of_va, &of_device)), (1, 1));
    assert_eq!(read(filter), before);
}

fn values_come_and_stay_and_go_back() {
    let mut agent = Agent::reverting();
    let before = [FORWARD, RANGE, "net.ipv4.ip_local_reserved_ports"].map(read);
    let pairs = [
        (FORWARD, "1"),
        (RANGE, "40000   0xc350"),
        ("net.ipv4.ip_local_reserved_ports", "8,7,6,41000-41001,41002"),
        ("net.ipv4.tcp_fin_timeout", "074"),
        ("net.ipv4.tcp_keepalive_time", " 5000 "),
        ("net.ipv4.conf.lo.rp_filter", "2"),
    ];
    let report = agent.converge(&pairs);
    assert_eq!(report.applied().count(), 5, "{}", describe(&report));
    assert_eq!(read(RANGE), "40000\t50000");
    assert_eq!(read("net.ipv4.ip_local_reserved_ports"), "6-8,41000-41002");
    agent.converge(&[]);
    assert_eq!([FORWARD, RANGE, "net.ipv4.ip_local_reserved_ports"].map(read), before);
    assert_eq!(read("net.ipv4.conf.lo.rp_filter"), "0");
    // Another writer's value stays that writer's.
    agent.converge(&[(FORWARD, "1"), (RANGE, "40000 50000")]);
    write(RANGE, "40001 50000");
    let report = agent.pass(&[]);
    assert!(report.converged());
    assert!(matches!(report.findings(), [Finding::Left { found, .. }] if found == "40001 50000"));
    assert_eq!((read(FORWARD), read(RANGE)), ("0".into(), "40001\t50000".into()));
}

fn a_name_with_a_dot_is_one_part() {
    veth_pair("eth0.100", "eth0");
    let mut agent = Agent::reverting();
    let (dotted, other) = ("net.ipv4.conf.eth0/100.tag", "net.ipv4.conf.eth0.tag");
    let report = agent.converge(&[(dotted, "7")]);
    assert_eq!(report.ops()[0].to_string(), format!("{dotted} = 7, was 0 (declared): applied"));
    assert_eq!((read(dotted), read(other)), ("7".into(), "0".into()));
    agent.still(&[("net/ipv4/conf/eth0.100/tag", "7")]);
    agent.converge(&[]);
    assert_eq!(read(dotted), "0");
}

fn what_all_copies_takes_one_pass() {
    veth_pair("v0", "v1");
    for family in ["ipv4", "ipv6"] {
        let name = |of: &str| format!("net.{family}.conf.{of}.forwarding");
        let (all, default, v0, v1) = (name("all"), name("default"), name("v0"), name("v1"));
        // Right before `all` is written, and wrong after it.
        let pairs = [(&*v0, "0"), (&*default, "0"), (&*all, "1")];
        Agent::new().converge(&pairs);
        assert_eq!([&v0, &v1, &default, &all].map(|name| read(name)), ["0", "1", "0", "1"]);
    }
    // The switch changes this one, too.
    let redirects = "net.ipv4.conf.all.accept_redirects";
    write("net.ipv4.ip_forward", "0");
    write(redirects, "1");
    Agent::new().converge(&[(redirects, "1"), (FORWARD, "1")]);
    assert_eq!(read(redirects), "1");
}

fn what_a_default_copies_takes_one_pass() {
    veth_pair("v0", "v1");
    let (default, v0) = ("net.ipv4.conf.default.rp_filter", "net.ipv4.conf.v0.rp_filter");
    let before = read(v0);
    Agent::new().converge(&[(v0, &before), (default, "2")]);
    assert_eq!((read(v0), read("net.ipv4.conf.v1.rp_filter")), (before, "2".into()));
}

fn an_ipv4_default_is_not_copied_to_a_device_that_has_or_had_an_ipv4_address() {
    veth_pair("none", "has");
    veth_pair("had", "set");
    ip(&["address", "add", "10.1.0.1/24", "dev", "has"]);
    ip(&["address", "add", "10.2.0.1/24", "dev", "had"]);
    ip(&["address", "delete", "10.2.0.1/24", "dev", "had"]);
    let devices = ["none", "has", "had", "set", "lo", "all"];
    let values = |name: &str| devices.map(|of| read(&format!("net.ipv4.conf.{of}.{name}")));
    write("net.ipv4.conf.set.rp_filter", "0");
    let before = values("rp_filter");
    assert!(!before.contains(&"2".to_owned()), "{before:?}");
    let default = "net.ipv4.conf.default.rp_filter";
    Agent::new().converge(&[(default, "2")]);
    let mut expected = before;
    "2".clone_into(&mut expected[0]);
    assert_eq!(values("rp_filter"), expected);
    // A device that is added later begins with it, with or without an address.
    veth_pair("later", "other");
    assert_eq!(read("net.ipv4.conf.later.rp_filter"), "2");
    // These are not copied to existing devices, nor is the switch.
    for name in [
        "disable_policy",
        "disable_xfrm",
        "drop_unicast_in_l2_multicast",
        "forwarding",
        "promote_secondaries",
        "route_localnet",
    ] {
        let before = values(name);
        let default = format!("net.ipv4.conf.default.{name}");
        let other = if read(&default) == "0" { "1" } else { "0" };
        Agent::new().converge(&[(&default, other)]);
        assert_eq!(values(name), before, "{name}");
    }
}

fn a_secret_turns_another_value_and_that_is_mended() {
    veth_pair("v0", "v1");
    let (secret, mode) = ("net.ipv6.conf.v0.stable_secret", "net.ipv6.conf.v0.addr_gen_mode");
    let mut agent = Agent::reverting();
    agent.converge(&[(secret, "2001:db8::1"), (mode, "1")]);
    assert_eq!(read(secret), "2001:0db8:0000:0000:0000:0000:0000:0001");
    assert_eq!(read(mode), "1");
    let report = agent.pass(&[]);
    assert_eq!(report.findings(), [Finding::Irreversible { key: key(secret) }]);
}

fn what_the_kernel_makes_something_else_of_is_told_and_written_once() {
    // A key is read in full length.
    let (secret, short) = ("net.ipv4.tcp_fastopen_key", "1-2-3-4");
    let long = "00000001-00000002-00000003-00000004";
    let before = read(secret);
    let mut agent = Agent::reverting();
    let report = agent.pass(&[(secret, short), (FORWARD, "1")]);
    assert!(!report.converged());
    assert_eq!(failed(&report), [(secret.to_owned(), ErrorClass::Invalid)]);
    let text = describe(&report);
    assert!(text.contains(long) && text.contains("\"1-2-3-4\""), "{text}");
    for _ in 0..3 {
        let report = agent.still(&[(secret, short), (FORWARD, "1")]);
        assert!(!report.converged());
        assert_eq!(failed(&report).len(), 1);
    }
    agent.converge(&[(secret, long), (FORWARD, "1")]);
    agent.pass(&[(secret, short), (FORWARD, "1")]);
    agent.converge(&[]);
    assert_eq!(read(secret), before);
}

fn what_the_kernel_refuses_is_refused_alone() {
    let pairs = [
        (FORWARD, "1"),
        ("net.ipv4.conf.lo.rp_filter", "many"),
        ("net.ipv4.igmp_qrv", "0"),
        ("net.ipv4.no_such_key", "1"),
        ("net.ipv4.tcp_congestion_control", "no_such_algorithm"),
        (RANGE, "1 2 3"),
        ("net.ipv4.tcp_fin_timeout", "08"),
        ("net.ipv4.tcp_keepalive_time", "5000"),
    ];
    let mut agent = Agent::new();
    let report = agent.pass(&pairs);
    assert!(!report.converged());
    let applied: Vec<_> = report.applied().map(|done| done.command()).collect();
    assert_eq!(applied, ["net.ipv4.ip_forward=1", "net.ipv4.tcp_keepalive_time=5000"]);
    let class = |name: &str| {
        let failed = failed(&report);
        failed.iter().find(|(key, _)| key == name).map(|(_, class)| *class)
    };
    assert_eq!(class("net.ipv4.no_such_key"), Some(ErrorClass::Dependency));
    assert_eq!(class("net.ipv4.tcp_congestion_control"), Some(ErrorClass::Dependency));
    for (name, _) in &pairs[1..3] {
        assert_eq!(class(name), Some(ErrorClass::Invalid), "{}", describe(&report));
    }
    assert_eq!(report.ops().len(), pairs.len());
    assert_eq!(agent.owned(), 2);
}

fn what_rests_on_another_value_takes_one_pass() {
    let start = "net.ipv4.ip_unprivileged_port_start";
    // The range must begin above, and is written first.
    Agent::new().converge(&[(RANGE, "600 700"), (start, "500")]);
    assert_eq!((read(RANGE), read(start)), ("600\t700".into(), "500".into()));
}

fn an_order_and_a_directory_are_no_values() {
    let mut agent = Agent::new();
    let (order, directory) = ("net.ipv4.route.flush", "net.ipv4.conf");
    let report = agent.still(&[(order, "1"), (directory, "1")]);
    assert_eq!(
        failed(&report),
        [(directory.to_owned(), ErrorClass::Invalid), (order.to_owned(), ErrorClass::Invalid),]
    );
    let text = describe(&report);
    assert!(text.contains("can only be written") && text.contains("is a directory"), "{text}");
}

fn without_the_right_it_is_told_as_that() {
    // Host-wide: readable here, but not writable with any privilege.
    let shared = "net.core.rmem_max";
    if fs::exists(key(shared).file()).unwrap() {
        let report = Agent::new().pass(&[(shared, "4999"), (FORWARD, "1")]);
        assert_eq!(failed(&report), [(shared.to_owned(), ErrorClass::Invalid)]);
        assert_eq!(read(FORWARD), "1");
    }
    without_net_admin();
    let report = Agent::new().pass(&[(FORWARD, "0")]);
    // The file's mode decides, not the capability.
    match read(FORWARD).as_str() {
        "0" => assert!(report.converged()),
        _ => assert_eq!(failed(&report), [(FORWARD.to_owned(), ErrorClass::Permission)]),
    }
    let text = describe(&report);
    assert_eq!(text.contains("CAP_NET_ADMIN"), !report.converged(), "{text}");
}

fn a_read_only_sysctl_is_invalid_and_no_matter_of_privilege() {
    let read_only = "net.ipv4.tcp_available_congestion_control";
    let mut agent = Agent::new();
    for _ in 0..2 {
        let report = agent.pass(&[(read_only, "reno"), (FORWARD, "1")]);
        assert_eq!(failed(&report), [(read_only.to_owned(), ErrorClass::Invalid)]);
        let text = describe(&report);
        assert!(text.contains("read-only") && !text.contains("CAP_NET_ADMIN"), "{text}");
    }
    assert_eq!((read(FORWARD), agent.owned()), ("1".into(), 1));
}

fn what_goes_and_comes_with_a_device_is_set_again() {
    let name = "net.ipv4.conf.v0.tag";
    let mut agent = Agent::reverting();
    let report = agent.pass(&[(name, "5")]);
    assert_eq!(failed(&report), [(name.to_owned(), ErrorClass::Dependency)]);
    veth_pair("v0", "v1");
    agent.converge(&[(name, "5")]);
    ip(&["link", "delete", "v0"]);
    assert!(!agent.pass(&[(name, "5")]).converged());
    assert_eq!(agent.owned(), 0);
    veth_pair("v0", "v1");
    let report = agent.converge(&[(name, "5")]);
    assert_eq!(report.ops()[0].reason, Reason::Declared);
    // Made anew between two passes: it has the kernel's value, which is not ours to undo.
    ip(&["link", "delete", "v0"]);
    veth_pair("v0", "v1");
    agent.converge(&[]);
    assert_eq!(read(name), "0");
}

fn a_long_list_is_read_whole() {
    let ports = "net.ipv4.ip_local_reserved_ports";
    let odd = |from: u32| (from..from + 1600).step_by(2).map(|port| port.to_string());
    let list = odd(10001).collect::<Vec<_>>().join(",");
    // Longer than the kernel takes at once, though each part is valid.
    assert!(list.parse::<trueup_sysctl::Value>().is_err());
    let list = odd(10001).take(600).collect::<Vec<_>>().join(",");
    Agent::new().converge(&[(ports, &list)]);
    // A value that others made in several writes is also read whole.
    let long = odd(20001).chain(odd(30001)).collect::<Vec<_>>().join(",");
    let file = key(ports).file().display().to_string();
    let shell = |script: String| Command::new("sh").args(["-c", &script]).output().unwrap();
    shell(format!("printf %s {long} | dd of={file} bs=4000"));
    // A reader that asks for less than all of it at once gets no more.
    let all = shell(format!("cat {file}")).stdout;
    assert!(all.len() > 8000 && read(ports).len() < 8000);
    let seen = Agent::new().observe(&[ports]);
    let seen = seen[&key(ports)].as_deref().unwrap();
    assert!(seen.as_bytes() == all.trim_ascii());
}

fn two_namespaces_do_not_touch_each_other() {
    let (one, other) = (named_netns("sysctl-one"), named_netns("sysctl-other"));
    let here = fs::read_link("/proc/thread-self/ns/net").unwrap();
    let mine = read(FORWARD);
    let mut agents = [("1", &one), ("0", &other)].map(|(value, netns)| {
        let namespace = netns.name().parse().unwrap();
        (value, Agent::of(namespace))
    });
    for _ in 0..2 {
        for (value, agent) in &mut agents {
            agent.converge(&[(FORWARD, value), ("net.ipv4.conf.lo.tag", value)]);
        }
    }
    for (value, agent) in &mut agents {
        let seen = agent.observe(&[FORWARD]);
        assert_eq!(seen[&key(FORWARD)].as_deref(), Ok(*value));
        assert_eq!(seen[&key("net.ipv4.conf.lo.tag")].as_deref(), Ok(*value));
    }
    assert_eq!(read(FORWARD), mine);
    assert_eq!(read("net.ipv4.conf.lo.tag"), "0");
    assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), here);
}

fn a_namespace_made_anew_is_another() {
    let netns = named_netns("sysctl-anew");
    let scope: Namespace = netns.name().parse().unwrap();
    let desired = Desired::parse([(FORWARD, "1")]).unwrap();
    let (mut source, mut ledger) = (Sysctl::new(), MemoryLedger::default());
    let options = Options::default().with_revert(true);
    let report = source.reconcile(PassInput::new(&scope, &desired, &mut ledger, &options));
    assert!(report.unwrap().converged());
    drop(netns);
    let error = source.reconcile(PassInput::new(&scope, &desired, &mut ledger, &options));
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    assert!(Sysctl::is_scope_gone(&error) && !error.is_retryable());

    let netns = named_netns("sysctl-anew");
    let nothing = Desired::default();
    for desired in [&desired, &nothing] {
        let error = source.reconcile(PassInput::new(&scope, desired, &mut ledger, &options));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Gone);
    }
    assert!(source.observe(&scope, &options).unwrap_err().is_gone());
    assert!(source.plan(&scope, &desired, &ledger, &options).unwrap_err().is_gone());
    let mut other = Agent::of(scope);
    assert_eq!(other.observe(&[FORWARD])[&key(FORWARD)].as_deref(), Ok("0"));
    drop(netns);
}

fn a_namespace_that_is_none_says_so() {
    let (mut source, mut ledger) = (Sysctl::new(), MemoryLedger::default());
    let mut error = |scope: Namespace| {
        let pass = source.reconcile(PassInput::new(
            &scope,
            &Desired::default(),
            &mut ledger,
            &Options::default(),
        ));
        pass.unwrap_err()
    };
    let missing = error("sysctl-none".parse().unwrap());
    assert_eq!(missing.kind(), ErrorKind::Namespace);
    // It may appear.
    assert!(missing.is_retryable() && !Sysctl::is_scope_gone(&missing));
    assert!(missing.to_string().contains("sysctl-none"), "{missing}");
    let model = error(model::Kernel::new().namespace());
    assert_eq!(model.kind(), ErrorKind::Namespace);
    assert!(model.to_string().contains("through a connector"), "{model}");
}

fn what_is_observed_is_what_the_namespace_has() {
    let mut agent = Agent::new();
    agent.converge(&[(FORWARD, "1")]);
    let seen = agent.observe(&["net.ipv6.conf.lo.stable_secret", "net.ipv4.route.flush", RANGE]);
    assert_eq!(seen[&key(FORWARD)].as_deref(), Ok("1"));
    assert_eq!(seen[&key(RANGE)].as_deref(), Ok("32768 60999"));
    assert_eq!(seen[&key("net.ipv6.conf.lo.stable_secret")].as_deref(), Ok(""));
    assert!(seen[&key("net.ipv4.route.flush")].is_err());
}
