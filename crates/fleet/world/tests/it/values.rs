//! Limits and hashes.

use trueup_world::{ErrorKind, Hash, Limits};

#[test]
fn more_than_the_limits_is_an_error_that_may_pass() {
    let limits = Limits { count: 2, bytes: 10 };
    limits.check("the list", 2, 10).unwrap();
    for (entries, bytes) in [(3, 10), (2, 11)] {
        let error = limits.check("the list", entries, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert!(error.is_retryable() && error.to_string().starts_with("the list has more"));
    }
}

#[test]
fn a_hash_round_trips_and_is_that_of_the_standard() {
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let hash = Hash::of(b"abc");
    assert_eq!(hash.to_string(), text);
    assert_eq!(text.parse::<Hash>().unwrap(), hash);
    for wrong in
        ["", "ba78", &text.to_uppercase(), &text.replace('b', "ü"), &format!("+{}", &text[1..])]
    {
        assert_eq!(wrong.parse::<Hash>().unwrap_err().kind(), ErrorKind::Malformed);
    }
}
