use crate::case::Domain;
use crate::message::{Message, set_up, veth};

pub struct Rules;

impl Domain for Rules {
    fn name(&self) -> &'static str {
        "rule"
    }

    fn prelude(&self) -> Vec<Message> {
        vec![veth("v0", 10, "v1", 11), set_up(10, true), set_up(11, true)]
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        set_up(10, rng.bool())
    }
}
