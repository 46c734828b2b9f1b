use proptest::prelude::*;

use super::*;

fn are_one(key: &str, one: &str, other: &str) -> bool {
    is_same_value(&key.parse().unwrap(), one, other)
}

#[test]
fn texts_that_are_one_value() {
    for (key, one, other) in [
        ("net.ipv4.ip_forward", "1", "1\n"),
        ("net.ipv4.ip_local_port_range", "32768 60999", "32768\t60999\n"),
        ("net.ipv4.icmp_ratemask", "0xff", "255"),
        ("net.ipv4.icmp_ratemask", "0XFF", "255"),
        ("net.ipv4.tcp_fin_timeout", "074", "60"),
        ("net.ipv4.conf.lo.forwarding", "-0", "0"),
        ("net.ipv4.conf.lo.forwarding", "00", "0"),
        ("net.ipv4.ip_local_reserved_ports", "1,2,3", "1-3\n"),
        ("net.ipv4.ip_local_reserved_ports", "8, 5-6,7,65535", "5-8,65535"),
        ("net.ipv4.ip_local_reserved_ports", "", "\n"),
        ("net.ipv4.tcp_allowed_congestion_control", "cubic reno", "reno cubic\n"),
        (
            "net.ipv6.conf.eth0.stable_secret",
            "2001:db8::1",
            "2001:0db8:0000:0000:0000:0000:0000:0001\n",
        ),
    ] {
        assert!(are_one(key, one, other), "{key}: {one:?} {other:?}");
    }
}

#[test]
fn texts_that_are_not() {
    for (key, one, other) in [
        ("net.ipv4.ip_forward", "1", "0"),
        ("net.ipv4.ip_forward", "1", "-1"),
        ("net.ipv4.ip_forward", "1", "+1"),
        ("net.ipv4.ip_forward", "8", "08"),
        ("net.ipv4.ip_forward", "0", "0x"),
        ("net.ipv4.ip_forward", "0", ""),
        ("net.ipv4.ip_local_port_range", "1 2", "12"),
        ("net.ipv4.tcp_rmem", "1 2 3", "1 2"),
        ("net.core.rps_default_mask", "010", "8"),
        ("net.ipv4.ip_local_reserved_ports", "1-3", "1,3"),
        ("net.ipv4.ip_local_reserved_ports", "3-1", "1-3"),
        ("net.ipv4.tcp_congestion_control", "reno", "Reno"),
    ] {
        assert!(!are_one(key, one, other), "{key}: {one:?} {other:?}");
    }
}

#[test]
fn values_are_one_line_of_text() {
    for text in ["1\n", "\n", "a\nb", "1\r", "1\0", "\u{7f}"] {
        assert!(text.parse::<Value>().is_err(), "{text:?}");
    }
    assert!("x".repeat(MAX_LEN).parse::<Value>().is_ok());
    assert!("x".repeat(MAX_LEN + 1).parse::<Value>().is_err());
    assert_eq!(Value::from(false).to_string(), "0");
    assert_eq!(Value::from(-5).to_string(), "-5");
    assert_eq!("".parse::<Value>().unwrap().as_str(), "");
}

fn any_key() -> impl Strategy<Value = Key> {
    let names = prop::sample::select(vec![
        "net.ipv4.ip_forward",
        "net.ipv4.ip_local_reserved_ports",
        "net.core.rps_default_mask",
        "net.ipv4.tcp_allowed_congestion_control",
        "net.ipv6.conf.eth0.stable_secret",
    ]);
    names.prop_map(|name| name.parse().unwrap())
}

proptest! {
    #[test]
    fn a_canonical_text_is_its_own(key in any_key(), text in "[-0-9a-fxX, \t\n]{0,24}|\\PC{0,24}") {
        let once = canonical(&key, &text);
        prop_assert_eq!(canonical(&key, &once), once.clone());
        prop_assert!(is_same_value(&key, &text, &once));
        // White space added by the kernel makes no difference.
        let line = format!("{text}\n");
        prop_assert!(is_same_value(&key, &text, &line));
    }

    #[test]
    fn numbers_are_what_they_count(number in any::<u64>()) {
        let key: Key = "net.ipv4.x".parse().unwrap();
        let decimal = number.to_string();
        for other in [format!("{number:#x}"), format!("0{number:o}")] {
            prop_assert!(is_same_value(&key, &decimal, &other));
        }
        prop_assert!(!is_same_value(&key, &decimal, &number.wrapping_add(1).to_string()));
    }

    #[test]
    fn ports_are_the_set_that_they_are(
        one in prop::collection::vec((0..60u16, 0..4u16), 0..8),
        shift in 0..2u16,
    ) {
        let key: Key = "net.ipv4.ip_local_reserved_ports".parse().unwrap();
        let parts = one.iter().map(|(first, more)| format!("{first}-{}", first + more));
        let text = Vec::from_iter(parts).join(",");
        let ranges = one.iter().map(|(first, more)| *first..=first + more);
        let set: BTreeSet<u16> = ranges.flatten().collect();
        let other: BTreeSet<u16> = set.iter().map(|port| port + shift).collect();
        let single = other.iter().rev().map(u16::to_string).collect::<Vec<_>>().join(",");
        prop_assert_eq!(is_same_value(&key, &text, &single), set == other);
    }

    #[test]
    fn a_value_is_read_back_as_it_was(text in "\\PC{0,40}|[\\x00-\\x20a-z]{0,10}") {
        if let Ok(value) = text.parse::<Value>() {
            prop_assert_eq!(&value.as_str().parse::<Value>().unwrap(), &value);
            prop_assert!(!value.as_str().contains('\n'));
        }
    }
}
