use proptest::prelude::*;

use super::*;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

#[test]
fn each_spelling_of_a_key_is_that_key() {
    for (shown, path, others) in [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward", vec![]),
        ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter", vec![]),
        // A part may begin or end with a dot.
        ("net.x./a/.y", "net/x/.a./y", vec![]),
    ] {
        let key = key(shown);
        assert_eq!(key.path(), path);
        assert_eq!(key.to_string(), shown);
        for other in others.into_iter().chain([path]) {
            assert_eq!(other.parse::<Key>().unwrap(), key);
        }
    }
}

#[test]
fn what_is_no_key_says_why() {
    for (text, why) in [
        ("", "empty"),
        ("/proc/sys/net/ipv4/ip_forward", "from the root"),
        ("net", "directory"),
        ("net.", "empty"),
        ("net..ipv4", "empty"),
        ("net/ipv4//ip_forward", "empty"),
        ("net/ipv4/", "empty"),
        ("net/ipv4/../core/somaxconn", "elsewhere"),
        ("net.ipv4.//.core", "elsewhere"),
        ("net/./x", "elsewhere"),
        ("net.ipv4.ip forward", "white space"),
        ("net.ipv4.ip_forward\n", "white space"),
        ("net.ipv4.\0", "control"),
        ("kernel.hostname", "host"),
        ("vm/swappiness", "host"),
        ("network.x", "host"),
        ("-net.ipv4.ip_forward", "host"),
    ] {
        let error = text.parse::<Key>().unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    }
    let error = format!("net.{}", "x".repeat(300)).parse::<Key>().unwrap_err().to_string();
    assert!(error.contains("255 bytes") && error.len() < 120, "{error}");
}

#[test]
fn the_device_of_a_setting_is_in_its_path() {
    for (path, expected) in [
        ("net/ipv4/conf/eth0.100/rp_filter", Some("eth0.100")),
        ("net/ipv6/neigh/br0/mcast_solicit", Some("br0")),
        ("net/ipv4/conf/all/forwarding", None),
        ("net/ipv4/conf/default/forwarding", None),
        ("net/ipv4/ip_forward", None),
        ("net/ipv4/conf/br0", None),
        ("net/core/conf", None),
    ] {
        assert_eq!(key(path).device(), expected, "{path}");
    }
}

#[test]
fn what_is_copied_comes_before_what_it_is_copied_to() {
    let order = [
        "net.ipv4.ip_forward",
        "net.ipv4.conf.all.accept_redirects",
        "net.ipv6.conf.default.forwarding",
        "net.ipv4.conf.eth0.forwarding",
    ];
    assert!(order.map(|text| key(text).rank()).is_sorted_by(|a, b| a < b));
    for forwarding in ["net.ipv4.conf.all.forwarding", "net.ipv6.conf.all.forwarding"] {
        assert_eq!(key(forwarding).rank(), 0);
    }
    // There are no devices with these names, and no copies.
    for other in ["net.ipv4.all", "net.core.default.x", "net.core.somaxconn"] {
        assert_eq!(key(other).rank(), 3, "{other}");
    }
}

proptest! {
    #[test]
    fn what_parses_is_shown_and_parses_the_same(text in "(net[./])?[a-z0-9./_ -]{0,40}|\\PC{0,40}") {
        if let Ok(key) = text.parse::<Key>() {
            prop_assert_eq!(&key.to_string().parse::<Key>().unwrap(), &key);
            prop_assert_eq!(&key.path().parse::<Key>().unwrap(), &key);
            prop_assert!(key.path().starts_with("net/"));
            prop_assert!(key.path().split('/').all(|part| !["", ".", ".."].contains(&part)));
            prop_assert!(key.file().starts_with("/proc/sys/net"));
        }
    }

    #[test]
    fn any_name_of_a_device_can_be_written_in_both_forms(device in "[!-.0-~]{1,15}") {
        prop_assume!(device != "." && device != "..");
        let path = format!("net/ipv4/conf/{device}/rp_filter");
        let dotted = format!("net.ipv4.conf.{}.rp_filter", device.replace('.', "/"));
        prop_assert_eq!(key(&path), key(&dotted));
        prop_assert_eq!(key(&path).to_string(), dotted);
    }
}
