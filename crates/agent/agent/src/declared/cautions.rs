//! What a file says that is allowed, and that its author should know the price of.

use trueup_world::Hosts;

use super::Declared;

impl Declared {
    /// Returns a warning for each `[[collect]]` from any host, unless an operator says what each
    /// host may export: with its place in the file, and the remedy.
    pub fn cautions(&self) -> Vec<String> {
        let world = self.file.settings.world.as_ref();
        if world.is_some_and(|world| world.grants_key.is_some()) {
            return Vec::new();
        }
        let collects = self.file.collects.iter().flatten().enumerate();
        let open = collects.filter(|(_, collect)| collect.from == Hosts::Any);
        open.map(|(index, collect)| {
            let place = self.file.locations.of_collect(index);
            let place = place.map_or_else(String::new, |place| format!(":{place}"));
            let within: Vec<String> = collect.within.iter().map(ToString::to_string).collect();
            format!(
                "{}{place}: warning: [[collect]] from any host: each host can take each prefix \
                 within {}, also while the host that has it is away; write from = \"HOST\", and \
                 in `within` that host's prefix alone, or set grants_key in [world]",
                self.name,
                within.join(", ")
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trueup_file::{File, TableNames};

    use super::*;
    use crate::section::Sections;

    fn cautions(sections: &str) -> Vec<String> {
        let text = format!("[world]\nstore = \"embedded\"\nhost = \"a\"\n{sections}");
        let file = File::parse("f.toml", text.as_bytes(), &TableNames::default()).unwrap();
        let declared =
            Declared::new("f.toml".to_owned(), file, Duration::ZERO, &Sections::default()).unwrap();
        declared.cautions()
    }

    const ANY: &str = "[[collect]]\nkind = \"route\"\nwithin = [\"10.20.0.0/16\"]\n";

    #[test]
    fn a_collection_from_any_host_is_warned_of_at_its_place() {
        let [warning] = &cautions(ANY)[..] else { panic!("{:?}", cautions(ANY)) };
        for words in [
            "f.toml:4:1: warning: ",
            "each prefix within 10.20.0.0/16",
            "from = \"HOST\"",
            "grants_key",
        ] {
            assert!(warning.contains(words), "no {words:?} in {warning}");
        }
        assert_eq!(cautions(&format!("{ANY}from = \"any\"\n")).len(), 1);
        assert_eq!(cautions(&format!("{ANY}from = \"b\"\n")), Vec::<String>::new());
        let key = format!("grants_key = \"{}\"\n{ANY}", "01".repeat(32));
        assert_eq!(cautions(&key), Vec::<String>::new());
        assert_eq!(cautions(""), Vec::<String>::new());
    }
}
