//! Tests that a record in the journal reads back as it was written.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_record_reads_as_written_without_its_secrets(
        key in ".*", field in ".*", old in proptest::option::of(".*"), new in ".*",
        started: u64, is_job: bool, is_again: bool,
    ) {
        let mut action = Action::new(key, Verb::Other(field.clone()))
            .with("password", Value::secret("hunter2"))
            .with_run_state("running");
        action.changes.push(Change { field, old: old.map(Value::new), new: Value::new(new) });
        let request = "op-1".to_owned();
        let record = Record { action, request, is_job, is_again, started };
        let encoded = record.encode();
        prop_assert!(!String::from_utf8_lossy(&encoded).contains("hunter2"));
        prop_assert!(Record::decode(&encoded).unwrap().is_same(&record.action));
        let mut expected = record;
        expected.action.changes[0].new = Value::secret("");
        let read = Record::decode(&encoded).unwrap();
        prop_assert!(read.action.changes[0].new.is_secret());
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn another_verb_field_or_value_is_another_action(
        field in "[a-z]{1,3}", new in "[a-z]{1,3}", other in "[A-Z]",
    ) {
        let action = Action::new("a", Verb::Configure).with(&field, new.as_str());
        let record = Record::decode(&Record::definition(action.clone())).unwrap();
        prop_assert!(record.is_same(&action.clone().with_reason("another")));
        let mut others = [(); 4].map(|()| action.clone());
        others[0].verb = Verb::Create;
        others[1].changes[0].field.clone_from(&other);
        others[2].changes[0].new = Value::new(other);
        others[3].changes[0].new = Value::secret(new);
        for other in others {
            prop_assert!(!record.is_same(&other), "{other}");
        }
    }

    #[test]
    fn other_bytes_are_no_record(bytes: Vec<u8>) {
        prop_assert!(Record::decode(&bytes).is_err());
    }
}
