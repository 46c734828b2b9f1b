//! What an observed object shows of an action whose answer was lost.

use crate::{Action, Normalisers, Object, Verb};

/// What an observed object shows of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It took effect.
    Happened,
    /// It did not, so far.
    NotYet,
    /// The object is neither as before nor as after it.
    Mixed,
    /// The object does not show it.
    NotShown,
}

/// Compares the action's changes with its object now: all new values are there, or all old ones, or
/// neither. Secrets are not compared. A verb of the backend shows nothing.
pub(crate) fn effect(
    action: &Action,
    observed: Option<&Object>,
    normalisers: &Normalisers,
) -> Effect {
    let object = match (&action.verb, observed) {
        (Verb::Create, None) | (Verb::Destroy, Some(_)) => return Effect::NotYet,
        (Verb::Create, Some(_)) | (Verb::Destroy, None) => return Effect::Happened,
        (Verb::Other(_), _) => return Effect::NotShown,
        (_, None) => return Effect::Mixed,
        (_, Some(object)) => object,
    };
    let (mut is_new, mut is_old, mut compared) = (true, true, false);
    for change in action.all_changes() {
        if change.new.is_secret() {
            continue;
        }
        let now = match change.field.as_str() {
            "run_state" => object.run_state.as_ref(),
            field => object.fields.get(field),
        };
        let is = |value| match (now, value) {
            (Some(now), Some(value)) => normalisers.is_equal(&change.field, now, value),
            (None, None) => true,
            _ => false,
        };
        compared = true;
        is_new &= is(Some(&change.new));
        is_old &= is(change.old.as_ref());
    }
    match (compared, is_new, is_old) {
        (true, true, false) => Effect::Happened,
        (true, false, true) => Effect::NotYet,
        (true, false, false) => Effect::Mixed,
        // Nothing was compared, or the action changes nothing.
        _ => Effect::NotShown,
    }
}

#[cfg(test)]
mod tests {
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
}
