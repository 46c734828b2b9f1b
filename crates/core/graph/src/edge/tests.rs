//! Kinds of change.

use super::*;

#[test]
fn kinds_meet_if_one_is_in_both_and_none_meets_nothing() {
    let [none, route, both]: [Kinds; 3] =
        [&[][..], &["route"], &["route", "rule"]].map(|it| it.iter().copied().collect());
    let rule = Kinds::from_iter(["rule"]);
    for (one, other, meets) in [
        (&Kinds::All, &Kinds::All, true),
        (&Kinds::All, &rule, true),
        (&Kinds::All, &none, false),
        (&none, &none, false),
        (&route, &rule, false),
        (&both, &rule, true),
    ] {
        assert_eq!((one.meets(other), other.meets(one)), (meets, meets), "{one:?} {other:?}");
    }
    let mut sum = route;
    sum.add(rule);
    assert_eq!(sum, both);
    sum.add(Kinds::All);
    sum.add(both);
    assert_eq!(sum, Kinds::All);
}
