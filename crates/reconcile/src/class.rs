//! What a failed op means for what comes next.
//!
//! The classes are those of any subsystem; mapping errno values or messages onto them is the subsystem's work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The class of a failed op: what its failure means, and so when trying again makes sense.
///
/// The enum is closed, because callers decide by it: exactly one of [`is_done`](Self::is_done),
/// [`is_permanent`](Self::is_permanent) and [`is_retryable`](Self::is_retryable) is true for each class.
/// In text and in serde a class is its name in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// What the op was to bring about is so already: the object to delete is gone, the one to create is there and equal.
    /// Counts as success.
    DoneAlready,
    /// Something that this op rests on is not there (yet): a device, a gateway's own route, a parent. Try once it is.
    Dependency,
    /// A foreign object sits on the key. Ours to tell, not to overwrite. A pass that looks again, and means to act all the same, has
    /// found it gone.
    Conflict,
    /// The op can never succeed as it is written: refused on its content.
    Invalid,
    /// The op was acknowledged, and the object reads back as something else, which no other writer made of it. Written again it
    /// would read back the same.
    StoredOtherwise,
    /// The running system does not know this kind of object, attribute or operation.
    Unsupported,
    /// The caller may not do this here.
    Permission,
    /// Short of a resource or in the middle of something: the same op may well succeed a little later.
    Busy,
    /// It is not known whether the op took effect: no answer, or one of no known meaning. Look again before trying again.
    Unknown,
}

impl ErrorClass {
    /// All classes, in the order of their declaration.
    pub const ALL: [ErrorClass; 9] = [
        ErrorClass::DoneAlready,
        ErrorClass::Dependency,
        ErrorClass::Conflict,
        ErrorClass::Invalid,
        ErrorClass::StoredOtherwise,
        ErrorClass::Unsupported,
        ErrorClass::Permission,
        ErrorClass::Busy,
        ErrorClass::Unknown,
    ];

    /// The op's purpose is fulfilled; nothing is left to do.
    pub fn is_done(self) -> bool {
        matches!(self, ErrorClass::DoneAlready)
    }

    /// Trying again is of no use until the desired state or the world changes: an op that is invalid, unsupported or not
    /// permitted, or whose object is stored otherwise.
    pub fn is_permanent(self) -> bool {
        matches!(
            self,
            ErrorClass::Invalid
                | ErrorClass::StoredOtherwise
                | ErrorClass::Unsupported
                | ErrorClass::Permission
        )
    }

    /// Time alone may help: the next pass should try again. Every pass looks before it acts, which is what
    /// [`Unknown`](Self::Unknown) and [`Conflict`](Self::Conflict) ask for.
    pub fn is_retryable(self) -> bool {
        !self.is_done() && !self.is_permanent()
    }

    /// The class's name in snake case, as serde writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorClass::DoneAlready => "done_already",
            ErrorClass::Dependency => "dependency",
            ErrorClass::Conflict => "conflict",
            ErrorClass::Invalid => "invalid",
            ErrorClass::StoredOtherwise => "stored_otherwise",
            ErrorClass::Unsupported => "unsupported",
            ErrorClass::Permission => "permission",
            ErrorClass::Busy => "busy",
            ErrorClass::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_calls_for_exactly_one_thing() {
        for class in ErrorClass::ALL {
            let told = [class.is_done(), class.is_permanent(), class.is_retryable()];
            assert_eq!(told.iter().filter(|&&it| it).count(), 1, "{class}");
        }
        let permanent: Vec<_> = ErrorClass::ALL
            .into_iter()
            .filter(|it| it.is_permanent())
            .collect();
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
}
