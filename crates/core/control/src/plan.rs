//! The plan: the actions that bring the observed objects to the desired state.

use std::collections::BTreeSet;

use trueup_diff::{Found, Verdict, decide};

use crate::{Action, Change, Config, Normalisers, Object, Objects, Verb};

/// A pass's actions, and the objects that the settings leave alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The actions by key; for one object, the configuration comes before the run state.
    pub actions: Vec<Action>,
    /// The keys of desired objects that do not exist.
    pub missing: Vec<String>,
    /// The keys of existing objects that are not desired.
    pub undesired: Vec<String>,
}

impl Plan {
    /// Returns true if there is nothing to do, and no desired object is missing.
    pub fn is_in_place(&self) -> bool {
        self.actions.is_empty() && self.missing.is_empty()
    }
}

/// Compares objects and returns the actions. The same arguments give the same plan. Of the
/// settings, it uses the normalisers, and the permissions to create and to destroy objects.
///
/// An object gets at most one action on its configuration, with exactly the fields that differ, and
/// at most one on its run state. A desired secret that cannot be observed counts as in place,
/// because backends do not return secrets. To compare a secret, let the backend observe a
/// fingerprint, and normalise to that.
///
/// ```
/// use std::collections::BTreeSet;
/// use trueup_control::{Config, Object, Objects, plan};
///
/// let guest = |memory| Objects::from([("vm7".to_owned(), Object::new().with("memory", memory))]);
/// let plan = plan(&guest("2048"), &guest("1024"), &BTreeSet::new(), &Config::default());
/// assert_eq!(plan.actions[0].to_string(), "vm7: configure (memory: 1024 -> 2048)");
/// ```
pub fn plan(
    desired: &Objects,
    observed: &Objects,
    owned: &BTreeSet<String>,
    config: &Config,
) -> Plan {
    let mut plan = Plan::default();
    let keys: BTreeSet<&String> = desired.keys().chain(observed.keys()).collect();
    for key in keys {
        let (wanted, there) = (desired.get(key), observed.get(key));
        let changes: Vec<Action> = match (wanted, there) {
            (Some(wanted), Some(there)) => {
                update(key, wanted, there, &config.normalisers).collect()
            }
            _ => Vec::new(),
        };
        let is_as_desired = wanted.is_some() && changes.is_empty();
        let found = there.map_or(Found::Nothing, |_| Found::item(is_as_desired));
        let (ours, foreign) =
            if owned.contains(key) { (found, Found::Nothing) } else { (Found::Nothing, found) };
        match (decide(wanted.is_some(), ours, foreign), wanted) {
            // A desired object is changed no matter who created it.
            (Verdict::Change | Verdict::Conflict, _) => plan.actions.extend(changes),
            (Verdict::Create, Some(wanted)) if config.creates => {
                plan.actions.push(create(key, wanted));
            }
            (Verdict::Create, _) => plan.missing.push(key.clone()),
            (Verdict::Delete, _) if config.destroys => plan.actions.push(destroy(key)),
            (Verdict::Delete | Verdict::Leave, _) => plan.undesired.push(key.clone()),
            (Verdict::Keep | Verdict::Satisfied, _) => {}
        }
    }
    plan
}

fn update(
    key: &str,
    desired: &Object,
    observed: &Object,
    normalisers: &Normalisers,
) -> impl Iterator<Item = Action> {
    let mut changes = Vec::new();
    for (field, new) in &desired.fields {
        let old = observed.fields.get(field);
        let is_same = match old {
            Some(old) => normalisers.is_equal(field, old, new),
            None => new.is_secret(),
        };
        if !is_same {
            changes.push(Change { field: field.clone(), old: old.cloned(), new: new.clone() });
        }
    }
    let configure = (!changes.is_empty()).then(|| Action {
        reason: match changes.len() {
            1 => "a field differs".to_owned(),
            count => format!("{count} fields differ"),
        },
        changes,
        ..Action::new(key, Verb::Configure)
    });
    let old = observed.run_state.as_ref();
    let new = desired.run_state.as_ref();
    let other = new.filter(|new| !normalisers.is_same("run_state", old, Some(new)));
    let run_state = other.map(|new| Action {
        run_state: Some(Change::run_state(old.cloned(), new.clone())),
        reason: "the run state differs".to_owned(),
        ..Action::new(key, Verb::SetRunState)
    });
    configure.into_iter().chain(run_state)
}

fn create(key: &str, desired: &Object) -> Action {
    let changes = desired.fields.iter().map(|(field, new)| Change {
        field: field.clone(),
        old: None,
        new: new.clone(),
    });
    let run_state = desired.run_state.clone();
    Action {
        changes: changes.collect(),
        run_state: run_state.map(|new| Change::run_state(None, new)),
        reason: "it is desired and not there".to_owned(),
        ..Action::new(key, Verb::Create)
    }
}

/// Destroys an object. The action has no changes: the approval's hash contains the observed object.
fn destroy(key: &str) -> Action {
    Action::new(key, Verb::Destroy).with_reason("it is ours, there, and not desired")
}
