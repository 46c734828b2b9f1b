//! The gate without an engine: the content of tokens.

use std::time::{Duration, SystemTime};

use trueup_control::{Action, Approval, ErrorKind, Gate, JournalId, Object, Terms, Value, Verb};

/// A checksum in place of a signature, because these tests are about the gate.
fn sum(key: u8, message: &[u8]) -> Vec<u8> {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(key);
    let hash = message
        .iter()
        .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    hash.to_be_bytes().to_vec()
}

fn gate_of(agent: &str) -> Gate {
    Gate::new(agent, |message, signature| sum(1, message) == signature)
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_token_is_over_one_action_one_state_and_one_agent() {
    let gate = gate_of("host a");
    let object = Object::new().with("disk", "10").with_run_state("running");
    let action = Action::new("vm7", Verb::Configure).with("disk", "20");
    let hash = gate.hash(&action, Some(&object));
    assert_eq!(gate.hash(&action.clone().with_reason("another"), Some(&object)), hash);
    assert_eq!(hash.to_string().parse::<trueup_control::ActionHash>().unwrap(), hash);
    let mut with_old = action.clone();
    with_old.changes[0].old = Some(Value::new("10"));
    let others = [
        (Action::new("vm8", Verb::Configure).with("disk", "20"), Some(&object)),
        (Action::new("vm7", Verb::Create).with("disk", "20"), Some(&object)),
        (Action::new("vm7", Verb::Other("configure".into())).with("disk", "20"), Some(&object)),
        (Action::new("vm7", Verb::Configure).with("disk", "21"), Some(&object)),
        (Action::new("vm7", Verb::Configure).with("disk2", "0"), Some(&object)),
        (Action::new("vm7", Verb::Configure), Some(&object)),
        (action.clone().with_run_state("stopped"), Some(&object)),
        (with_old, Some(&object)),
        (action.clone(), None),
        (action.clone(), Some(&Object::new())),
        (action.clone(), Some(&object.clone().with("disk", "11"))),
        (action.clone(), Some(&object.clone().with_run_state("stopped"))),
    ];
    for (action, object) in others {
        assert_ne!(gate.hash(&action, object), hash, "{action} {object:?}");
    }
    assert_ne!(gate_of("host b").hash(&action, Some(&object)), hash);
}

const DAY: u64 = 24 * 60 * 60;

fn journal(of: u8) -> JournalId {
    JournalId::from_bytes([of; 16])
}

#[test]
fn a_token_is_checked_for_form_signature_journal_and_times() {
    let gate = gate_of("host a");
    let hash = gate.hash(&Action::new("vm7", Verb::Destroy), None);
    let sign = |key, of, issued, expires| {
        let terms = Terms::new(hash, journal(of), [7; 16], at(issued), at(expires));
        Approval::sign(terms, move |message| sum(key, message)).to_string()
    };
    let found = gate.check(&sign(1, 3, 10, 100), journal(3), at(99)).unwrap();
    let terms = Terms::new(hash, journal(3), [7; 16], at(10), at(100));
    assert_eq!(*found.terms(), terms);
    assert_eq!((found.hash(), found.nonce(), found.expires()), (hash, &[7; 16], at(100)));
    let kind = |token: &str, now| {
        let checked = gate.check(token, journal(3), at(now));
        checked.unwrap_err().kind()
    };
    assert_eq!(kind(&sign(1, 3, 10, 100), 100), ErrorKind::Expired);
    assert_eq!(kind(&sign(2, 3, 10, 100), 99), ErrorKind::Signature);
    assert_eq!(kind(&sign(1, 4, 10, 100), 99), ErrorKind::OtherJournal);
    for text in [
        "",
        "trueup2.",
        "trueup2.0",
        "trueup2.zz",
        &sign(1, 3, 10, 100)[1..],
        "trueup2.é",
        // A token of an earlier version.
        &sign(1, 3, 10, 100).replacen("trueup2", "trueup1", 1),
        // A time beyond the clock's range.
        &sign(1, 3, 10, 100).replacen("0000000000000064", &"f".repeat(16), 1),
    ] {
        assert_eq!(kind(text, 99), ErrorKind::Malformed, "{text}");
    }
    let upper = sign(1, 3, 10, 100).to_uppercase().replacen("TRUEUP2", "trueup2", 1);
    assert_eq!(kind(&upper, 99), ErrorKind::Malformed);
    let closed = Gate::closed().check(&sign(1, 3, 10, 100), journal(3), at(99));
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Signature);
    assert!(!format!("{found:?}").contains(&"07".repeat(16)));
}

#[test]
fn a_token_is_for_a_bounded_time_that_has_begun() {
    let gate = gate_of("host a");
    let hash = gate.hash(&Action::new("vm7", Verb::Destroy), None);
    let check = |gate: &Gate, issued, expires| {
        let terms = Terms::new(hash, journal(3), [7; 16], at(issued), at(expires));
        let token = Approval::sign(terms, |message| sum(1, message)).to_string();
        let checked = gate.check(&token, journal(3), at(1000));
        checked.err().map(|error| error.kind())
    };
    let (refused, short) =
        (Some(ErrorKind::Lifetime), gate.clone().with_max_lifetime(Duration::from_secs(60)));
    assert_eq!(check(&gate, 1000, 1000 + DAY), None);
    assert_eq!(check(&gate, 1000, 1001 + DAY), refused);
    assert_eq!(check(&gate, 1000, 1000 + 365_250 * DAY), refused);
    assert_eq!(check(&gate, 0, 1 + DAY), refused, "also if part of it is over");
    assert_eq!(check(&short, 1000, 1060), None);
    assert_eq!(check(&short, 1000, 1061), refused);
    // Issued by a clock that is ahead.
    assert_eq!(check(&gate, 1060, 1100), None);
    assert_eq!(check(&gate, 1061, 1100), refused);
    assert_eq!(check(&gate, 1000 + 365_250 * DAY, 1001 + 365_250 * DAY), refused);
}
