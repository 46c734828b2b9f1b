//! The plan and the normalisers.

use std::collections::BTreeSet;

use proptest::prelude::*;
use trueup_control::{
    Config, Normalisers, Object, Objects, Value, Verb, lower_case, plan, round_up, trim_end,
};

fn normalisers() -> Normalisers {
    Normalisers::new()
        .with("memory", round_up(1 << 20))
        .with("mac", lower_case)
        .with("notes", trim_end)
}

/// Returns the value that a backend stores for a written one.
fn stored(field: &str, value: &Value) -> Value {
    let text = value.expose();
    Value::new(match field {
        "memory" => round_up(1 << 20)(text),
        "mac" => text.to_ascii_uppercase(),
        "notes" => format!("{}\n", text.trim_end()),
        _ => text.to_owned(),
    })
}

fn store(object: &Object) -> Object {
    let mut found = Object::new();
    for (field, value) in &object.fields {
        found = found.with(field.clone(), stored(field, value));
    }
    found.run_state = object.run_state.clone();
    found
}

fn object() -> impl Strategy<Value = Object> {
    let memory = proptest::option::of(0..1u64 << 40);
    let mac = proptest::option::of("([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}");
    let notes = proptest::option::of("[a-c \n]{0,6}");
    let name = proptest::option::of("[a-c]{0,3}");
    let state = proptest::option::of(prop_oneof!["running", "stopped"]);
    (memory, mac, notes, name, state).prop_map(|(memory, mac, notes, name, state)| {
        let mut object = Object::new();
        let fields = [
            ("memory", memory.map(|memory| memory.to_string())),
            ("mac", mac),
            ("notes", notes),
            ("name", name),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                object = object.with(field, value);
            }
        }
        object.run_state = state.map(Value::new);
        object
    })
}

fn objects() -> impl Strategy<Value = Objects> {
    proptest::collection::btree_map("vm[0-9]", object(), 0..8)
}

/// Returns each configuration, with true if it creates and true if it destroys objects.
fn configs() -> [(Config, bool, bool); 4] {
    let config = Config::default().with_normalisers(normalisers());
    [
        (config.clone(), false, false),
        (config.clone().with_create(), true, false),
        (config.clone().with_destroy(), false, true),
        (config.with_create().with_destroy(), true, true),
    ]
}

proptest! {
    #[test]
    fn what_was_written_and_read_back_needs_nothing(desired in objects()) {
        let observed: Objects = desired.iter().map(|(key, it)| (key.clone(), store(it))).collect();
        let [(config, ..), ..] = configs();
        let found = plan(&desired, &observed, &BTreeSet::new(), &config);
        prop_assert!(found.is_in_place(), "{found:?}");
        // Without normalisers, the backend's rewriting counts as drift.
        let plain = plan(&desired, &observed, &BTreeSet::new(), &Config::default());
        let rewritten = desired.iter().any(|(key, it)| {
            it.fields.iter().any(|(field, value)| observed[key].fields[field] != *value)
        });
        prop_assert_eq!(plain.is_in_place(), !rewritten);
    }

    #[test]
    fn normalisers_are_idempotent(it in object()) {
        let once = normalisers().object(&it);
        prop_assert_eq!(normalisers().object(&once), once);
    }

    #[test]
    fn a_plan_is_minimal_ordered_and_enough(
        desired in objects(), observed in objects(),
        owned in proptest::collection::btree_set("vm[0-9]", 0..8),
    ) {
        let normalisers = normalisers();
        for (config, creates, destroys) in configs() {
            let found = plan(&desired, &observed, &owned, &config);
            prop_assert_eq!(&found, &plan(&desired, &observed, &owned, &config));
            // By key, configuration before run state, at most one of each.
            let order = found.actions.iter().map(|it| (it.key.clone(), it.verb.clone()));
            let order: Vec<_> = order.collect();
            prop_assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
            for action in &found.actions {
                prop_assert!(!action.reason.is_empty());
                let before = observed.get(&action.key);
                for change in &action.changes {
                    // Each change is a difference, and contains the old value as observed.
                    let old = before.and_then(|it| it.fields.get(&change.field));
                    prop_assert_eq!(old, change.old.as_ref());
                    let (field, new) = (&change.field, &change.new);
                    prop_assert!(!old.is_some_and(|old| normalisers.is_equal(field, old, new)));
                    prop_assert_eq!(Some(new), desired[&action.key].fields.get(field));
                }
            }
            // After all actions, only the objects that the settings leave alone differ.
            let mut after = observed.clone();
            for action in &found.actions {
                match action.apply_to(after.remove(&action.key)) {
                    Some(it) => drop(after.insert(action.key.clone(), store(&it))),
                    None => drop(after.remove(&action.key)),
                }
            }
            let rest = plan(&desired, &after, &owned, &config);
            prop_assert_eq!(&rest.actions, &[]);
            prop_assert_eq!(&rest.missing, &found.missing);
            prop_assert_eq!(&rest.undesired, &found.undesired);
            prop_assert!(!creates || found.missing.is_empty());
            // An undesired object is destroyed only if it is ours.
            for key in observed.keys().filter(|key| !desired.contains_key(*key)) {
                prop_assert_eq!(!after.contains_key(key), destroys && owned.contains(key));
            }
            // Objects with other keys stay unchanged.
            let is_left = |key: &String| !found.actions.iter().any(|action| action.key == *key);
            for (key, it) in observed.iter().filter(|(key, _)| is_left(key)) {
                prop_assert_eq!(after.get(key), Some(it));
            }
        }
    }
}

#[test]
fn an_absent_field_is_unmanaged() {
    let desired = Objects::from([("vm7".into(), Object::new().with("memory", "1"))]);
    let observed = Object::new().with("memory", "1").with("cpus", "4");
    let observed = Objects::from([("vm7".into(), observed.with_run_state("running"))]);
    let owned = BTreeSet::from(["vm7".to_owned()]);
    let config = Config::default().with_create().with_destroy();
    let found = plan(&desired, &observed, &owned, &config);
    assert_eq!(found.actions, []);
}

#[test]
fn a_secret_is_compared_where_it_can_be_observed_and_never_shown() {
    let desired = Object::new().with("password", Value::secret("hunter2"));
    let desired = Objects::from([("vm7".into(), desired)]);
    let with = |observed: Object| {
        let observed = Objects::from([("vm7".into(), observed)]);
        let normalisers = Normalisers::new().with("password", |text| match text {
            "hunter2" => "fingerprint".to_owned(),
            other => other.to_owned(),
        });
        let config = Config::default().with_normalisers(normalisers);
        plan(&desired, &observed, &BTreeSet::new(), &config)
    };
    assert!(with(Object::new()).is_in_place());
    assert!(with(Object::new().with("password", "fingerprint")).is_in_place());
    let found = with(Object::new().with("password", "other"));
    assert_eq!(found.actions[0].verb, Verb::Configure);
    assert_eq!(found.actions[0].new_value("password").unwrap().expose(), "hunter2");
    assert!(!format!("{found:?} {} {desired:?}", found.actions[0]).contains("hunter2"));
    assert_eq!(found.actions[0].to_string(), "vm7: configure (password: other -> <secret>)");
}
