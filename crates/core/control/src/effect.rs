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
#[path = "../tests/unit/effect.rs"]
mod tests;
