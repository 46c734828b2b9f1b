//! What a conflict is about: the fields that differ, and what to write.

use crate::devices::Devices;
use crate::kinds::{Difference, FOREVER, Kinds, Lifetimes, Object};
use crate::plan::Conflict;

impl Conflict {
    /// Every respect in which the foreign object is not as declared. What the declaration leaves
    /// open matches anything.
    pub fn differences(&self) -> Vec<Difference> {
        self.meant().differences(&self.foreign)
    }

    /// What is there, the fields that differ, and what to write: `foreign 10.3.0.0/16 via 10.1.0.8
    /// dev br0 proto 4 table 254; nexthops: is via 10.1.0.8 dev br0, declared via 10.1.0.9 dev br0;
    /// declare what is there, or write on_conflict = "take"`. The same as long as no writer changes
    /// the object: it says nothing of the rest of a lifetime.
    pub fn text(&self, devices: &Devices) -> String {
        format!("foreign {}", self.foreign_text(devices))
    }

    /// The same without the first word.
    pub fn foreign_text(&self, devices: &Devices) -> String {
        let (meant, foreign) = (self.meant(), &self.foreign);
        let mut text = without_countdown(foreign).spec(devices);
        if self.is_in_front {
            text += "; in front of ours";
        }
        for Difference { field, .. } in self.differences() {
            let [is, lasting] = [foreign, &foreign.lasting()].map(|it| it.field(field, devices));
            text += &match is {
                Some(value) if lasting.as_ref() == Some(&value) => format!("; {field}: is {value}"),
                _ => format!("; {field}: is another"),
            };
            if let Some(declared) = meant.field(field, devices) {
                text += &format!(", declared {declared}");
            }
        }
        text + "; " + self.remedy()
    }

    fn meant(&self) -> Object {
        self.desired.with_open_of(&self.foreign)
    }

    fn remedy(&self) -> &'static str {
        let differences = self.differences();
        let mut fields = differences.iter();
        if differences.is_empty() {
            "leave the key to the other writer, or remove all but one"
        } else if self.is_in_front {
            "have the other writer remove it, or declare another metric: the first on a key is used"
        } else if self.foreign.is_kernels_own(Kinds::NONE) {
            "declare what the kernel has made, or leave it out"
        } else if fields.all(|field| field.in_place) {
            "declare what is there, or write on_conflict = \"take\""
        } else {
            "declare what is there, or have the other writer remove it: the kernel cannot change it"
        }
    }
}

/// Returns an object without lifetimes that end.
fn without_countdown(object: &Object) -> Object {
    match object {
        Object::Address(address) if address.lifetimes.valid != FOREVER => {
            address.clone().with_lifetimes(Lifetimes::default()).into()
        }
        other => other.clone(),
    }
}
