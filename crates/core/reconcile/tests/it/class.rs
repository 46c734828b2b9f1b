//! Classes of failed ops.

use trueup_reconcile::ErrorClass;

#[test]
fn every_class_calls_for_exactly_one_thing() {
    for class in ErrorClass::ALL {
        let answers = [class.is_done(), class.is_permanent(), class.is_retryable()];
        assert_eq!(answers.iter().filter(|&&it| it).count(), 1, "{class}");
    }
    let permanent: Vec<_> = ErrorClass::ALL.into_iter().filter(|it| it.is_permanent()).collect();
    assert_eq!(
        permanent,
        [
            ErrorClass::Invalid,
            ErrorClass::StoredOtherwise,
            ErrorClass::Unsupported,
            ErrorClass::Permission
        ]
    );
}

#[test]
fn text_and_serde_use_one_name() {
    for class in ErrorClass::ALL {
        let json = serde_json::to_string(&class).unwrap();
        assert_eq!(json, format!("\"{class}\""));
        assert_eq!(serde_json::from_str::<ErrorClass>(&json).unwrap(), class);
    }
    assert_eq!(ErrorClass::DoneAlready.to_string(), "done_already");
    assert!(serde_json::from_str::<ErrorClass>("\"Busy\"").is_err());
}
