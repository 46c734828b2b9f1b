//! The lists that a reader refuses, and the reasons.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ed25519_dalek::{Signer as _, SigningKey};
use proptest::prelude::*;
use trueup_net::Prefix;
use trueup_reconcile::{Hints, utc};
use trueup_world::{
    Error, ErrorKind, Grants, GrantsCheck, GrantsError, GrantsFollower, WatchConfig,
};

use super::{DAY, SECRET, check, stores, wait_for};

const NOON: Duration = Duration::from_secs(1_800_000_000);

fn now() -> SystemTime {
    UNIX_EPOCH + NOON
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn list(serial: u64) -> Grants {
    let grants = Grants::new(serial, now(), DAY).unwrap();
    grants
        .with_grant("a", prefix("10.20.1.0/24"))
        .with_grant("a", prefix("fd00:1::/48"))
        .with_grant("b", prefix("10.20.2.0/24"))
}

fn signed(serial: u64) -> Vec<u8> {
    list(serial).sign(&SECRET).unwrap()
}

/// Signs any bytes as a list.
fn signed_text(text: &[u8]) -> Vec<u8> {
    let signature =
        SigningKey::from_bytes(&SECRET).sign(&[b"trueup world grants 1\0", text].concat());
    [digits(&signature.to_bytes()).as_bytes(), b"\n", text].concat()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn verify(check: &mut GrantsCheck, signed: &[u8]) -> Result<Grants, GrantsError> {
    check.verify(Some(signed), |_| Ok(()))
}

#[test]
fn a_signed_list_is_read_as_it_was_written() {
    let mut check = check();
    let mut seen = String::new();
    let grants = check.verify(Some(&signed(3)), |text| {
        seen = text.to_owned();
        Ok(())
    });
    let grants = grants.unwrap();
    assert_eq!(grants, list(3));
    assert_eq!((grants.serial(), grants.begins()), (3, now()));
    assert_eq!(grants.ends(), now() + DAY);
    assert!(seen.starts_with("3 "), "{seen}");
    // The same list again, as after a restart.
    assert_eq!(verify(&mut check, &signed(3)).unwrap(), list(3));
}

#[test]
fn a_host_may_export_its_prefixes_and_their_parts_alone() {
    let grants = list(1);
    for (host, dst, expected) in [
        ("a", "10.20.1.0/24", true),
        ("a", "10.20.1.128/25", true),
        ("a", "10.20.1.7/32", true),
        ("a", "fd00:1:0:2::/64", true),
        ("a", "10.20.0.0/16", false),
        ("a", "0.0.0.0/0", false),
        ("a", "10.20.2.0/24", false),
        ("b", "10.20.1.0/24", false),
        ("b", "fd00:1::/48", false),
        ("c", "10.20.1.0/24", false),
        ("", "10.20.1.0/24", false),
    ] {
        assert_eq!(grants.allows(host, prefix(dst)), expected, "{host} {dst}");
    }
}

#[test]
fn another_key_a_missing_list_and_a_list_without_a_signature_are_refused() {
    let forged = list(9).sign(&[8; 32]).unwrap();
    assert!(matches!(verify(&mut check(), &forged), Err(GrantsError::Forged)));
    let missing = check().verify(None, |_| Ok(()));
    assert!(matches!(missing, Err(GrantsError::Missing)), "{missing:?}");
    let whole = String::from_utf8(signed(9)).unwrap();
    let (_, text) = whole.split_once('\n').unwrap();
    let zeros = format!("{}\n{text}", "0".repeat(128));
    let upper = String::from_utf8(signed(9)).unwrap().to_uppercase();
    for wrong in [text, "", "\n", &"0".repeat(128), &upper] {
        let result = verify(&mut check(), wrong.as_bytes());
        assert!(matches!(result, Err(GrantsError::Malformed(_))), "{wrong}: {result:?}");
    }
    let result = verify(&mut check(), zeros.as_bytes());
    assert!(matches!(result, Err(GrantsError::Forged)), "{result:?}");
    // The signature of the text alone, as another program would make it with the same key.
    let other = digits(&SigningKey::from_bytes(&SECRET).sign(text.as_bytes()).to_bytes());
    let result = verify(&mut check(), format!("{other}\n{text}").as_bytes());
    assert!(matches!(result, Err(GrantsError::Forged)), "{result:?}");
}

#[test]
fn weak_and_impossible_keys_are_refused() {
    let mut small = [0; 32];
    small[0] = 1;
    let mut none = [0; 32];
    none[0] = 2;
    for bytes in [[0; 32], small, none] {
        let error = GrantsCheck::new(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn an_older_list_and_another_one_with_the_same_number_are_refused() {
    let (mut check, mut seen) = (check(), String::new());
    check
        .verify(Some(&signed(5)), |text| {
            seen = text.to_owned();
            Ok(())
        })
        .unwrap();
    let older = verify(&mut check, &signed(4));
    assert!(matches!(older, Err(GrantsError::RolledBack { serial: 4, seen: 5 })), "{older:?}");
    let other = list(5).with_grant("m", prefix("0.0.0.0/0")).sign(&SECRET);
    let other = verify(&mut check, &other.unwrap());
    assert!(matches!(other, Err(GrantsError::Reused { serial: 5 })), "{other:?}");
    // Lists that an earlier process has seen count as well.
    let mut next = super::check().with_seen(&seen).unwrap();
    let older = verify(&mut next, &signed(4));
    assert!(matches!(older, Err(GrantsError::RolledBack { .. })), "{older:?}");
    verify(&mut next, &signed(5)).unwrap();
    verify(&mut next, &signed(6)).unwrap();
    for wrong in ["", "5", "5 ", " 5", "x y", "5 00"] {
        let error = super::check().with_seen(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{wrong}");
    }
}

#[test]
fn a_forged_list_is_not_remembered_and_an_expired_one_is() {
    let mut check = check();
    let forged = list(9).sign(&[8; 32]).unwrap();
    let result = check.verify(Some(&forged), |_| panic!("it is forged"));
    assert!(matches!(result, Err(GrantsError::Forged)), "{result:?}");
    // If the forged list counted, this one would be refused as older.
    verify(&mut check.clone(), &signed(1)).unwrap();
    // The operator did sign it, so all lists before it are void.
    let grants = verify(&mut check, &signed(9)).unwrap();
    assert!(grants.check_time(now() + DAY).is_err());
    let older = verify(&mut check, &signed(8));
    assert!(matches!(older, Err(GrantsError::RolledBack { .. })), "{older:?}");
}

#[test]
fn a_list_that_cannot_be_recorded_is_not_used_until_it_can() {
    let fails = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&fails);
    let record = move |_: &str| match seen.load(Ordering::SeqCst) {
        true => Err(Error::new(ErrorKind::Store, "no space")),
        false => Ok(()),
    };
    let stores = stores();
    let (config, hints) = (WatchConfig::default(), Hints::new(|| {}));
    let follower = GrantsFollower::start(&stores.host, check(), record, config, hints).unwrap();
    assert!(matches!(follower.grants(), Err(GrantsError::Unread | GrantsError::Missing)));
    let begins = SystemTime::now();
    let list =
        |serial, lifetime| Grants::new(serial, begins, lifetime).unwrap().sign(&SECRET).unwrap();
    stores.write(Some(list(1, DAY)));
    wait_for(&follower, "unrecorded", |it| matches!(it, Err(GrantsError::Unrecorded(_))));
    fails.store(false, Ordering::SeqCst);
    wait_for(&follower, "the first", |it| it.as_ref().is_ok_and(|it| it.serial() == 1));
    stores.write(None);
    wait_for(&follower, "missing", |it| matches!(it, Err(GrantsError::Missing)));
    stores.write(Some(list(1, DAY)));
    wait_for(&follower, "again", Result::is_ok);
    stores.write(Some(b"?".to_vec()));
    wait_for(&follower, "malformed", |it| matches!(it, Err(GrantsError::Malformed(_))));
    stores.write(Some(list(1, DAY)));
    wait_for(&follower, "again", Result::is_ok);
    stores.write(Some(list(2, Duration::from_secs(1))));
    wait_for(&follower, "expired", |it| matches!(it, Err(GrantsError::Expired { .. })));
}

#[test]
fn a_list_counts_from_its_begin_to_its_end() {
    let grants = list(1);
    let second = Duration::from_secs(1);
    let early = grants.check_time(now() - second).unwrap_err();
    assert!(matches!(early, GrantsError::Early { serial: 1, .. }), "{early:?}");
    grants.check_time(now()).unwrap();
    grants.check_time(now() + DAY - second).unwrap();
    for late in [now() + DAY, now() + 10_000 * DAY] {
        let expired = grants.check_time(late).unwrap_err();
        assert!(matches!(expired, GrantsError::Expired { .. }), "{expired:?}");
    }
    assert!(grants.check_time(UNIX_EPOCH).is_err());
    assert!(early.to_string().contains(&utc(now())), "{early}");
}

#[test]
fn an_operators_file_is_read_and_mistakes_in_it_are_named() {
    let read = |text: &str| Grants::read_list(text.as_bytes(), now(), DAY);
    let good = read(
        r#"{ "serial": 2, "grants": [
            { "host": "a", "prefixes": ["10.20.1.0/24"] },
            { "host": "b", "prefixes": [] },
            { "host": "a", "prefixes": ["fd00::/64"] } ] }"#,
    )
    .unwrap();
    assert!(good.allows("a", prefix("10.20.1.0/24")) && good.allows("a", prefix("fd00::/64")));
    assert!(!good.allows("b", prefix("10.20.1.0/24")));
    for (text, expected) in [
        (r#"{ "serial": 0, "grants": [] }"#, "from 1 on"),
        (r#"{ "serial": -1, "grants": [] }"#, "invalid value"),
        (r#"{ "grants": [] }"#, "missing field `serial`"),
        (r#"{ "serial": 1 }"#, "missing field `grants`"),
        (r#"{ "serial": 1, "grants": [], "more": 1 }"#, "unknown field `more`"),
        (r#"{ "serial": 1, "serial": 2, "grants": [] }"#, "duplicate field"),
        (r#"{ "serial": 1, "ends": 9, "grants": [] }"#, "leave them out"),
        (r#"{ "serial": 1, "grants": [{ "host": "any", "prefixes": [] }] }"#, "name each host"),
        (r#"{ "serial": 1, "grants": [{ "host": "", "prefixes": [] }] }"#, "name each host"),
        (
            r#"{ "serial": 1, "grants": [{ "host": "a", "prefixes": ["10.20.1.1/24"] }] }"#,
            "10.20.1.0/24",
        ),
        ("", "EOF"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let ten_years = Grants::MAX_LIFETIME;
    assert!(Grants::new(1, now(), ten_years).is_ok());
    for lifetime in [Duration::ZERO, ten_years + Duration::from_secs(1), Duration::MAX] {
        assert!(Grants::new(1, now(), lifetime).is_err(), "{lifetime:?}");
    }
    let long = format!(r#"{{ "serial": 1, "grants": [] }}{}"#, " ".repeat(Grants::MAX_BYTES));
    assert!(read(&long).is_err());
}

#[test]
fn a_time_that_no_clock_has_is_malformed() {
    for (begins, ends) in [(u64::MAX - 9, u64::MAX), (5, 4), (5, 5), (0, u64::MAX)] {
        let text = format!(r#"{{"serial":1,"begins":{begins},"ends":{ends},"grants":[]}}"#);
        let error = check().open(&signed_text(text.as_bytes())).unwrap_err();
        assert!(matches!(error, GrantsError::Malformed(_)), "{begins} {ends}: {error}");
    }
}

proptest! {
    #[test]
    fn a_list_with_any_change_is_refused(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let mut changed = signed(1);
        let at = at.index(changed.len());
        changed[at] ^= flip;
        let result = verify(&mut check(), &changed);
        let is_refused = matches!(result, Err(GrantsError::Forged | GrantsError::Malformed(_)));
        prop_assert!(is_refused, "{result:?}");
    }

    #[test]
    fn a_part_of_a_list_is_refused(end in any::<prop::sample::Index>(), more in "[ \\n}0]{1,3}") {
        let whole = signed(1);
        let part = &whole[..end.index(whole.len())];
        prop_assert!(verify(&mut check(), part).is_err());
        let longer = [&whole, more.as_bytes()].concat();
        prop_assert!(matches!(verify(&mut check(), &longer), Err(GrantsError::Forged)));
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,200}") {
        let _ = verify(&mut check(), &bytes);
        let _ = check().open(&signed_text(text.as_bytes()));
        let _ = check().open(&signed_text(&bytes));
        let _ = check().with_seen(&text);
    }

    /// The number of the list in use never falls, whatever the order of lists.
    #[test]
    fn the_serial_number_never_falls(serials in prop::collection::vec(1..6_u64, 1..20)) {
        let mut check = check();
        let mut newest = 0;
        for serial in serials {
            match verify(&mut check, &signed(serial)) {
                Ok(grants) => {
                    prop_assert!(grants.serial() >= newest);
                    newest = grants.serial();
                }
                Err(error) => {
                    let is_older = matches!(error, GrantsError::RolledBack { .. });
                    prop_assert!(is_older && serial < newest, "{error}");
                }
            }
        }
    }
}
