//! Encoding and decoding of keys.

use proptest::prelude::*;

use super::*;
use crate::Access;

fn recipient() -> impl Strategy<Value = Hosts> {
    prop_oneof![Just(Hosts::Any), ".*".prop_map(Hosts::One)]
}

prop_compose! {
    fn key()(
        exporter in ".*",
        recipient in recipient(),
        kind in ".*",
        name in prop::collection::vec(any::<u8>(), 0..20),
    ) -> ResourceKey {
        ResourceKey { exporter, recipient, kind, name }
    }
}

proptest! {
    #[test]
    fn each_key_round_trips(key in key()) {
        let keys = Keys::new("/w").unwrap();
        let encoded = keys.resource(&key);
        prop_assert_eq!(keys.parse_resource(&encoded).unwrap(), key.clone());
        prop_assert!(encoded.starts_with(&keys.resources_of(&key.recipient, &key.exporter)));
    }

    #[test]
    fn a_parsed_key_is_the_one_that_is_written(part in "[*%0-9A-Fa-f/-]{0,6}") {
        let keys = Keys::new("/w").unwrap();
        let key = format!("/w/resources/{part}/a/k/n").into_bytes();
        if let Ok(parsed) = keys.parse_resource(&key) {
            prop_assert_eq!(keys.resource(&parsed), key);
        }
    }

    #[test]
    fn a_host_writes_no_key_of_another(a in ".{0,5}", b in ".{0,5}", key in key()) {
        prop_assume!(a != b);
        let keys = Keys::new("/w").unwrap();
        let access = Access::of_host("/w", &a, &["c".into()]).unwrap();
        let of_b = ResourceKey { exporter: b.clone(), ..key.clone() };
        prop_assert!(!access.can_write(&keys.resource(&of_b)));
        prop_assert!(!access.can_write(&keys.of_host(&b, "session")));
        prop_assert!(!access.can_read(&keys.recipients(&b)));
        let mut for_b = key;
        for_b.recipient = Hosts::One(b.clone());
        let granted = b == "c" && for_b.exporter == a;
        prop_assert_eq!(access.can_read(&keys.resource(&for_b)), granted);
    }
}

#[test]
fn any_is_no_host_of_that_name() {
    let keys = Keys::new("/w/").unwrap();
    let all = keys.resources_for(&Hosts::Any);
    assert_eq!(all, b"/w/resources/*/");
    assert_eq!(keys.resources_for(&Hosts::One("*".into())), b"/w/resources/%2A/");
    assert_eq!(keys.resources_for(&Hosts::One("".into())), b"/w/resources/%/");
}

#[test]
fn what_is_no_key_is_malformed() {
    let keys = Keys::new("/w").unwrap();
    for key in [
        "",
        "/w/resources/*/a/k",
        "/w/resources/*/a/k/n/m",
        "/w/resources/*/a/k/%2",
        "/w/resources/*/a/k/%2a",
        "/w/resources/*/a/k/%41",
        "/w/resources/*/a//n",
        "/w/resources/*/%FF/k/n",
        "/x/resources/*/a/k/n",
        "/w/hosts/a/session",
    ] {
        let error = keys.parse_resource(key.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{key}");
    }
}
