//! The iproute2 command of an op, and an object in iproute2's words.

use std::fmt;

use crate::devices::Devices;
use crate::kinds::{Action, Object, Render, Words};
use crate::op::{Op, Reason};
use crate::with_object;

/// The command, without the leading `ip`.
pub(super) struct Command<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command(op, devices) = *self;
        with_object!(&op.object, object => match object.own_command(op.action) {
            Some(command) => f.write_str(&command),
            None => {
                let option = object.ip_option();
                let verb = match op.reason {
                    Reason::Beside => format!("{} append", ip_object(&op.object)),
                    _ => object.verb(op.action),
                };
                write!(f, "{option}{verb} {}", OpWords(op, devices))
            }
        })
    }
}

/// iproute2's word for the kind of an object.
pub(super) fn ip_object(object: &Object) -> &'static str {
    with_object!(object, _it: K => K::IP_OBJECT)
}

/// What follows the verb of an op: all of the object, its key alone for a delete, what is to
/// change for an update of a link.
pub(super) struct OpWords<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for OpWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpWords(op, devices) = *self;
        with_object!(&op.object, object: K => {
            let was = op.was();
            let was = was.as_deref().and_then(|was| <&K>::try_from(was).ok());
            let words = match op.action {
                Action::Create => Words::Create,
                Action::Update => Words::Update(was),
                Action::Delete => Words::Key,
            };
            object.write_words(f, &words, devices)
        })
    }
}

/// All of an object. The family of a rule, which no prefix need tell, is in front.
pub(super) struct Spec<'a>(pub(super) &'a Object, pub(super) &'a Devices);

impl fmt::Display for Spec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec(object, devices) = *self;
        with_object!(object, object => {
            f.write_str(&object.family_word())?;
            object.write_words(f, &Words::All, devices)
        })
    }
}
