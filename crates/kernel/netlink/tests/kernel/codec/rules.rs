//! Policy routing rules.

use trueup_net::{Family, FwMark, Rule, RuleAction};
use trueup_netlink::codec::{self, EncodeError, existing, rule};
use trueup_netlink::wire::{MessageWriter, NLM_F_CREATE, NLM_F_EXCL};
use trueup_testkit::{Kind, raw_dump};

use super::net::{FOREIGN, Net, OURS, name};

const PRIORITY: u32 = 1000;

fn lookup(family: Family) -> Rule {
    let mut rule = Rule::new(family, PRIORITY, RuleAction::Lookup(100));
    rule.protocol = OURS;
    rule
}

/// Returns rules with one selector each, and one with most of them, least selective last.
fn variants(family: Family) -> Vec<Rule> {
    let network = |v4: &str, v6: &str| {
        let text = if family == Family::Inet { v4 } else { v6 };
        Some(text.parse().unwrap())
    };
    let from = network("10.1.0.0/24", "2001:db8:1::/64");
    let to = network("10.2.0.0/16", "2001:db8:2::/48");
    let with = |change: &dyn Fn(&mut Rule)| {
        let mut rule = lookup(family);
        change(&mut rule);
        rule
    };
    let mark = |mark, mask| Some(FwMark { mark, mask });
    vec![
        with(&|r| {
            (r.from, r.to, r.not, r.tos) = (from, to, true, 0x10);
            (r.iif, r.oif) = (Some(name("a")), Some(name("nosuchdev")));
            (r.fwmark, r.ipproto) = (mark(7, 0xff), Some(17));
            (r.sport, r.dport) = (Some((1..=2).into()), Some((53..=53).into()));
            (r.uidrange, r.suppress_prefixlength) = (Some((0..=0).into()), Some(0));
        }),
        with(&|r| r.from = from),
        with(&|r| r.to = to),
        with(&|r| r.from = network("10.1.0.7/24", "2001:db8:1::7/64")),
        with(&|r| r.from = network("10.1.0.7/32", "2001:db8:1::7/128")),
        with(&|r| r.iif = Some(name("a"))),
        with(&|r| r.iif = Some(name("nosuchdev"))),
        with(&|r| r.oif = Some(name("b"))),
        with(&|r| r.fwmark = mark(7, u32::MAX)),
        with(&|r| r.fwmark = mark(0x70, 0xf0)),
        with(&|r| r.fwmark = mark(0, 0xf0)),
        with(&|r| r.tos = 0x10),
        with(&|r| r.ipproto = Some(6)),
        with(&|r| r.sport = Some((1024..=65534).into())),
        with(&|r| r.sport = Some((80..=80).into())),
        with(&|r| r.dport = Some((1..=9).into())),
        with(&|r| r.dport = Some((443..=443).into())),
        // A user namespace of one user only knows user 0.
        with(&|r| r.uidrange = Some((0..=0).into())),
        with(&|r| r.suppress_prefixlength = Some(0)),
        with(&|r| r.suppress_prefixlength = Some(24)),
        with(&|r| r.suppress_ifgroup = Some(5)),
        with(&|r| (r.from, r.not) = (from, true)),
        with(&|r| r.action = RuleAction::Goto(PRIORITY + 5)),
        with(&|r| r.action = RuleAction::Goto(32766)),
        with(&|r| r.action = RuleAction::Blackhole),
        with(&|r| r.action = RuleAction::Unreachable),
        with(&|r| r.action = RuleAction::Prohibit),
        with(&|r| r.action = RuleAction::Nop),
        with(&|r| r.action = RuleAction::Lookup(1_000_000)),
        with(&|r| r.action = RuleAction::Lookup(254)),
        with(&|_| {}),
    ]
}

fn errno(error: trueup_netlink::Error) -> Option<i32> {
    error.errno()
}

pub(crate) fn rules_come_back_as_desired_and_go_alone() {
    for family in [Family::Inet, Family::Inet6] {
        let (mut net, _, _) = Net::with_devices();
        let kernels = net.rules(family);
        for desired in variants(family).into_iter().map(Rule::canonical) {
            // Similar rules: a foreign one, one at the next priority, and ours with another table.
            let mut foreign = desired.clone();
            foreign.protocol = FOREIGN;
            let mut next = desired.clone();
            next.priority += 1;
            let mut other = desired.clone();
            other.action = RuleAction::Lookup(4242);
            let likes = [foreign, next, other];
            for like in &likes {
                net.send(|b| codec::create(b, like, &existing)).unwrap();
            }
            let before = net.rules(family);

            net.send(|b| codec::create(b, &desired, &existing))
                .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
            let now = net.rules(family);
            assert_eq!(now.iter().filter(|r| **r == desired).count(), 1, "{desired:?}: {now:?}");
            assert_eq!(now.len(), before.len() + 1);
            let again = net.send(|b| codec::create(b, &desired, &existing)).unwrap_err();
            assert_eq!(errno(again), Some(libc::EEXIST), "{desired:?}");

            net.send(|b| codec::delete(b, &desired, &existing)).unwrap();
            assert_eq!(net.rules(family), before, "{desired:?}");
            let gone = net.send(|b| codec::delete(b, &desired, &existing)).unwrap_err();
            assert_eq!(errno(gone), Some(libc::ENOENT), "{desired:?}");
            for like in &likes {
                net.send(|b| codec::delete(b, like, &existing)).unwrap();
            }
        }
        assert_eq!(net.rules(family), kernels);
    }
}

/// All at one priority. Each is its own rule, and each delete removes only its own, if the least
/// selective was created first. Otherwise the kernel takes it for an existing one, since an absent
/// prefix matches any, and its delete would hit the first rule with more selectors. Rules that
/// differ only in `not` or the target of a `goto` are the same rule to the kernel.
pub(crate) fn rules_of_one_priority_are_told_apart() {
    for family in [Family::Inet, Family::Inet6] {
        let (mut net, _, _) = Net::with_devices();
        let mut all: Vec<_> = variants(family).into_iter().map(Rule::canonical).collect();
        let target = |rule: &Rule| rule.action == RuleAction::Goto(32766);
        for same in all.iter().filter(|rule| rule.not || target(rule)) {
            net.send(|b| codec::create(b, same, &existing)).unwrap();
            let mut other = same.clone();
            if target(same) {
                other.action = RuleAction::Goto(PRIORITY + 5);
            } else {
                other.not = false;
            }
            let error = net.send(|b| codec::create(b, &other, &existing)).unwrap_err();
            assert_eq!(errno(error), Some(libc::EEXIST), "{other:?}");
            net.send(|b| codec::delete(b, same, &existing)).unwrap();
        }
        all.retain(|rule| !rule.not && !target(rule));
        all.reverse();
        for rule in &all {
            net.send(|b| codec::create(b, rule, &existing))
                .unwrap_or_else(|error| panic!("{rule:?}: {error}"));
        }
        for rule in &all {
            let mut expected = net.rules(family);
            expected.retain(|r| r != rule);
            net.send(|b| codec::delete(b, rule, &existing)).unwrap();
            assert_eq!(net.rules(family), expected, "{rule:?}");
        }
    }
}

/// From bytes outside the model: a DSCP selector and a port mask.
pub(crate) fn what_the_model_does_not_hold_is_told() {
    const FRA_DSCP: u16 = 25;
    const FRA_SPORT_RANGE: u16 = 23;
    const FRA_SPORT_MASK: u16 = 28;
    const FRA_FLOW: u16 = 11;
    let mut net = Net::empty();
    for (number, payload) in
        [(FRA_DSCP, &[10][..]), (FRA_SPORT_MASK, &[0xf0, 0xff]), (FRA_FLOW, &[1, 0, 0, 0])]
    {
        let mut plain = Vec::new();
        codec::create(&mut plain, &lookup(Family::Inet), &existing).unwrap();
        let mut message = Vec::new();
        let mut writer = MessageWriter::begin(&mut message, rule::NEW, NLM_F_CREATE | NLM_F_EXCL);
        writer.raw(&plain[16..]);
        if number == FRA_SPORT_MASK {
            writer.attr(FRA_SPORT_RANGE, &[0x10, 0, 0x10, 0]);
        }
        writer.attr(number, payload);
        writer.finish().unwrap();
        net.socket.request(&message).unwrap_or_else(|error| panic!("{number}: {error}"));
        let rules = net.rules(Family::Inet);
        let found = rules.iter().find(|r| r.priority == PRIORITY).unwrap();
        // The kernel drops attributes that it does not know: the DSCP before 6.12, the mask even in
        // 6.12.
        let word = format!(" {number}=");
        let known = raw_dump(Kind::Rule, 2).iter().any(|row| row.to_string().contains(&word));
        if !known {
            assert_ne!(number, FRA_FLOW, "every kernel has it");
            println!("rules: this kernel drops attribute {number}");
            net.send(|b| codec::delete(b, found, &existing)).unwrap();
            continue;
        }
        assert!(found.unmodelled, "{number}: {found:?}");
        let refused = codec::delete(&mut message, found, &existing);
        assert!(matches!(refused, Err(EncodeError::Refused(_))));
        // The kernel takes absent selectors for any: the plain rule's delete hits it.
        net.send(|b| codec::delete(b, &lookup(Family::Inet), &existing)).unwrap();
    }
}

/// Either refused for lack of CONFIG_NET_L3_MASTER_DEV, or read back.
pub(crate) fn an_l3mdev_rule_comes_back_where_the_kernel_has_them() {
    let mut net = Net::empty();
    let mut desired = lookup(Family::Inet);
    desired.l3mdev = true;
    let desired = desired.canonical();
    match net.send(|b| codec::create(b, &desired, &existing)) {
        Ok(()) => {
            assert!(net.rules(Family::Inet).contains(&desired));
            net.send(|b| codec::delete(b, &desired, &existing)).unwrap();
            assert!(!net.rules(Family::Inet).contains(&desired));
        }
        Err(error) => assert_eq!(errno(error), Some(libc::EOPNOTSUPP)),
    }
}

pub(crate) fn the_kernels_first_rules_are_understood() {
    let mut net = Net::empty();
    let tables = |rules: Vec<Rule>| -> Vec<_> {
        assert!(rules.iter().all(|r| !r.unmodelled));
        rules.iter().map(|r| (r.priority, r.protocol, r.action)).collect()
    };
    let local = (0, 2, RuleAction::Lookup(255));
    let main = (32766, 2, RuleAction::Lookup(254));
    let default = (32767, 2, RuleAction::Lookup(253));
    assert_eq!(tables(net.rules(Family::Inet)), [local, main, default]);
    assert_eq!(tables(net.rules(Family::Inet6)), [local, main]);
}

pub(crate) fn what_would_match_any_is_refused() {
    let with = |change: &dyn Fn(&mut Rule)| {
        let mut rule = lookup(Family::Inet);
        change(&mut rule);
        rule
    };
    let mut buffer = Vec::new();
    for rule in [
        with(&|r| r.priority = 0),
        with(&|r| r.protocol = 0),
        with(&|r| r.action = RuleAction::Lookup(0)),
        with(&|r| r.unmodelled = true),
    ] {
        for encode in [codec::create, codec::delete] {
            let refused = encode(&mut buffer, &rule, &existing);
            assert!(matches!(refused, Err(EncodeError::Refused(_))), "{rule:?}");
        }
    }
    assert!(buffer.is_empty());
    let l3mdev = with(&|r| (r.l3mdev, r.action) = (true, RuleAction::Lookup(0)));
    codec::delete(&mut buffer, &l3mdev, &existing).unwrap();
}
