//! The gate, without an engine: what a token is over.

use std::time::{Duration, SystemTime};

use trueup_control::{Action, Approval, ErrorKind, Gate, Object, Value, Verb, Verifier};

/// A checksum in place of a signature: the gate is what is tested here.
struct Sum(u8);

fn sum(key: u8, message: &[u8]) -> Vec<u8> {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(key);
    let hash = message.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash.to_be_bytes().to_vec()
}

impl Verifier for Sum {
    fn is_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        sum(self.0, message) == signature
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_token_is_over_one_action_one_state_and_one_agent() {
    let gate = Gate::new("host a", Sum(1));
    let object = Object::new().with("disk", "10").with_run_state("running");
    let action = Action::new("vm7", Verb::Configure).with("disk", "20");
    let hash = gate.hash(&action, Some(&object));
    assert_eq!(
        gate.hash(&action.clone().with_reason("another"), Some(&object)),
        hash
    );
    assert_eq!(
        hash.to_string()
            .parse::<trueup_control::ActionHash>()
            .unwrap(),
        hash
    );
    let mut with_old = action.clone();
    with_old.changes[0].old = Some(Value::new("10"));
    let others = [
        (
            Action::new("vm8", Verb::Configure).with("disk", "20"),
            Some(&object),
        ),
        (
            Action::new("vm7", Verb::Create).with("disk", "20"),
            Some(&object),
        ),
        (
            Action::new("vm7", Verb::Other("configure".into())).with("disk", "20"),
            Some(&object),
        ),
        (
            Action::new("vm7", Verb::Configure).with("disk", "21"),
            Some(&object),
        ),
        (
            Action::new("vm7", Verb::Configure).with("disk2", "0"),
            Some(&object),
        ),
        (Action::new("vm7", Verb::Configure), Some(&object)),
        (action.clone().with_run_state("stopped"), Some(&object)),
        (with_old, Some(&object)),
        (action.clone(), None),
        (action.clone(), Some(&Object::new())),
        (action.clone(), Some(&object.clone().with("disk", "11"))),
        (
            action.clone(),
            Some(&object.clone().with_run_state("stopped")),
        ),
    ];
    for (action, object) in others {
        assert_ne!(gate.hash(&action, object), hash, "{action} {object:?}");
    }
    assert_ne!(
        Gate::new("host b", Sum(1)).hash(&action, Some(&object)),
        hash
    );
}

#[test]
fn a_token_is_checked_for_form_signature_and_expiry() {
    let gate = Gate::new("host a", Sum(1));
    let hash = gate.hash(&Action::new("vm7", Verb::Destroy), None);
    let sign = |key, expires| {
        Approval::sign(hash, [7; 16], at(expires), move |message| sum(key, message)).to_string()
    };
    let found = gate.check(&sign(1, 100), at(99)).unwrap();
    assert_eq!(
        (found.hash(), found.nonce(), found.expires()),
        (hash, &[7; 16], at(100))
    );
    let kind = |token: &str, now| gate.check(token, at(now)).unwrap_err().kind();
    assert_eq!(kind(&sign(1, 100), 100), ErrorKind::Expired);
    assert_eq!(kind(&sign(2, 100), 99), ErrorKind::Signature);
    for text in [
        "",
        "trueup1.",
        "trueup1.0",
        "trueup1.zz",
        &sign(1, 100)[1..],
        "trueup1.é",
    ] {
        assert_eq!(kind(text, 99), ErrorKind::Malformed, "{text}");
    }
    let upper = sign(1, 100)
        .to_uppercase()
        .replacen("TRUEUP1", "trueup1", 1);
    assert_eq!(kind(&upper, 99), ErrorKind::Malformed);
    assert_eq!(
        Gate::closed()
            .check(&sign(1, 100), at(99))
            .unwrap_err()
            .kind(),
        ErrorKind::Signature
    );
    assert!(!format!("{found:?}").contains(&"07".repeat(16)));
}
