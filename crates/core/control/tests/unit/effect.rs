//! Tests of an action's effect as its object shows it.

use super::*;
use crate::{Change, Value, round_up};

#[test]
fn an_object_shows_all_nothing_or_neither() {
    let normalisers = Normalisers::new().with("memory", round_up(1024));
    let change = |field: &str, old: &str, new: Value| Change {
        field: field.to_owned(),
        old: Some(old.into()),
        new,
    };
    let mut action = Action::new("vm7", Verb::Configure);
    action.changes = vec![
        change("memory", "1024", "2000".into()),
        change("name", "a", "b".into()),
        change("password", "", Value::secret("x")),
    ];
    let object = |memory: &str, name: &str| {
        Object::new().with("memory", memory).with("name", name).with("more", "1")
    };
    for (memory, name, expected) in [
        ("2048", "b", Effect::Happened),
        ("1024", "a", Effect::NotYet),
        ("2048", "a", Effect::Mixed),
        ("512", "c", Effect::Mixed),
    ] {
        let found = effect(&action, Some(&object(memory, name)), &normalisers);
        assert_eq!(found, expected, "{memory} {name}");
    }
    assert_eq!(effect(&action, None, &normalisers), Effect::Mixed);
    action.changes.drain(..2);
    let found = effect(&action, Some(&object("2048", "b")), &normalisers);
    assert_eq!(found, Effect::NotShown);
    for (verb, absent, present) in [
        (Verb::Create, Effect::NotYet, Effect::Happened),
        (Verb::Destroy, Effect::Happened, Effect::NotYet),
        (Verb::Other("x".into()), Effect::NotShown, Effect::NotShown),
    ] {
        let action = Action::new("vm7", verb);
        assert_eq!(effect(&action, None, &normalisers), absent);
        let object = Some(Object::new());
        assert_eq!(effect(&action, object.as_ref(), &normalisers), present);
    }
}
