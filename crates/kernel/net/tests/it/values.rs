//! The values of objects: prefixes, names, hardware addresses and patterns of names.

use trueup_net::{IfName, InterfacePattern, LinkAddr, Prefix};

#[test]
fn a_prefix_has_no_host_bits() {
    let error = "10.0.0.1/8".parse::<Prefix>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "10.0.0.1/8 has bits set behind its prefix length; write 10.0.0.0/8"
    );
    assert!("2001:db8::1/32".parse::<Prefix>().is_err());
    assert_eq!("10.0.0.1".parse::<Prefix>().unwrap().len(), 32);
    assert!("10.0.0.0/33".parse::<Prefix>().is_err());
    assert!("0.0.0.0/0".parse::<Prefix>().unwrap().is_default());
}

#[test]
fn interface_names_are_what_the_kernel_takes() {
    for good in ["lo", "eth0.100", "fifteen-bytes-x", "ä"] {
        assert_eq!(good.parse::<IfName>().unwrap().to_string(), good);
    }
    for bad in ["", ".", "..", "a b", "a/b", "a:b", "sixteen-bytes-xx", "a\u{b}"] {
        assert!(bad.parse::<IfName>().is_err(), "{bad:?}");
    }
    assert!(IfName::from_bytes(&[0xff, 0xfe]).unwrap().as_str().is_none());
}

#[test]
fn hardware_addresses_parse_as_hex_bytes() {
    assert_eq!("2:0:0:0:0:9".parse::<LinkAddr>().unwrap().to_string(), "02:00:00:00:00:09");
    for bad in ["", "02:", "02:zz", "002:00", "+2:00"] {
        assert!(bad.parse::<LinkAddr>().is_err(), "{bad:?}");
    }
    for (text, is_ethernet) in [
        ("02:00:00:00:00:09", true),
        ("00:00:00:00:00:00", false),
        ("01:00:5e:00:00:01", false),
        ("02:01", false),
        ("02:00:00:00:00:09:09", false),
    ] {
        let address: LinkAddr = text.parse().unwrap();
        assert_eq!(address.is_ethernet(), is_ethernet, "{text}");
    }
}

/// Returns true if a pattern matches a name.
fn fits(pattern: &str, name: &str) -> bool {
    pattern.parse::<InterfacePattern>().unwrap().matches(&name.parse().unwrap())
}

#[test]
fn patterns_match_whole_names() {
    assert!(fits("eth0", "eth0") && !fits("eth0", "eth01") && !fits("eth0", "eth"));
    assert!(fits("veth*", "veth7") && fits("veth*", "veth") && !fits("veth*", "my-veth"));
    assert!(fits("*", "lo") && fits("**", "lo"));
    assert!(fits("*.100", "eth0.100") && !fits("*.100", "eth0.1000"));
    assert!(fits("a*b*c", "abc") && fits("a*b*c", "aXbYbZc") && !fits("a*b*c", "acb"));
    // One byte cannot serve two parts of the pattern.
    assert!(!fits("ab*ba", "aba") && fits("ab*ba", "abba"));
}

#[test]
fn a_pattern_that_no_name_fits_is_refused() {
    for text in ["", "interfaces-of-nobody*", "a/b*", "with space"] {
        assert!(text.parse::<InterfacePattern>().is_err(), "{text}");
    }
}
