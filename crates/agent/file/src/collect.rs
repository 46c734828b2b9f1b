//! Collects the content of TOML or JSON in the order of the file: settings, objects of each kind,
//! sysctls.

use trueup_net::{Desired, NexthopMode};

use crate::error::{Diagnostic, MAX_PROBLEMS};
use crate::file::File;
use crate::file_keys::{self, COLLECT, NEXTHOPS, PROTOCOL, SYSCTL, WORLD};
use crate::graph::{EXEC, FILE};
use crate::kinds;
use crate::location::Cursor;
use crate::section::{Opened, Section};
use crate::settings::{self, Settings};
use crate::suggest::unknown;
use crate::sysctl::Sysctls;
use crate::tables::TableNames;
use crate::value::{Fault, Key, Node, Result, Value, fault};

/// The part of a file that was read so far.
pub(crate) struct Collector<'a> {
    tables: &'a TableNames,
    cursor: Cursor<'a>,
    pub(crate) settings: Settings,
    nexthops: NexthopMode,
    /// The keys that were given at the top.
    given: Vec<&'static str>,
    /// The position of the value of `protocol`.
    protocol_at: usize,
    /// The position of the first object with `adopt = false`. `None` if there is none.
    not_adopted: Option<usize>,
    sections: Vec<Section>,
    /// The names of sections that another crate reads.
    own: &'a [&'static str],
    sysctls: Option<Sysctls>,
    faults: Vec<Fault>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        text: &'a str,
        tables: &'a TableNames,
        own: &'a [&'static str],
    ) -> Collector<'a> {
        Collector {
            tables,
            cursor: Cursor::new(text.as_bytes()),
            settings: Settings::default(),
            nexthops: NexthopMode::default(),
            given: Vec::new(),
            protocol_at: 0,
            not_adopted: None,
            sections: sections(own),
            own,
            sysctls: None,
            faults: Vec::new(),
        }
    }

    /// Returns true if nothing was declared so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.sections.iter().all(|section| section.opened().is_none())
            && !self.given.iter().any(|key| file_keys::DECLARING.contains(key))
    }

    /// Takes a key at the top of the file with its value.
    pub(crate) fn pair(&mut self, key: Key<'a>, value: Value<'a>) -> Result<()> {
        if let Some((name, _)) = file_keys::find(&key.name) {
            return self.file_key(name, &key, &value);
        }
        let section = self.position(&key)?;
        let name = self.sections[section].name;
        if self.is_own(&key) && matches!(value.node, Node::Table(_)) {
            self.list(&key)?;
            self.element(name, value);
            return Ok(());
        }
        let Node::List(elements) = value.node else {
            let message = format!(
                "expected a list of {name} sections, found {}: write [[{name}]] above the keys, or \
                 {name} = []",
                value.sort(),
            );
            return fault(value.at, message);
        };
        self.list(&key)?;
        for element in elements {
            self.element(name, element);
        }
        Ok(())
    }

    /// True if the key names a section that another crate reads. Such a section may be one table.
    pub(crate) fn is_own(&self, key: &Key<'_>) -> bool {
        self.own.contains(&&*key.name)
    }

    fn file_key(&mut self, name: &'static str, key: &Key<'a>, value: &Value<'a>) -> Result<()> {
        if self.given.contains(&name) {
            return fault(key.at, format!("`{name}` is given twice"));
        }
        self.given.push(name);
        match name {
            SYSCTL => {
                self.sysctls = Some(Sysctls::read(value, &mut self.cursor, &mut self.faults));
            }
            NEXTHOPS => match settings::nexthops(value) {
                Ok(nexthops) => self.nexthops = nexthops,
                Err(fault) => self.faults.push(fault),
            },
            _ => {
                if name == PROTOCOL {
                    self.protocol_at = value.at;
                }
                let read = self.settings.read(name, value, self.tables);
                self.faults.extend(read.err());
            }
        }
        Ok(())
    }

    /// Opens a section that is given as one list.
    pub(crate) fn list(&mut self, key: &Key<'a>) -> Result<()> {
        let section = self.section(key)?;
        if section.opened().is_some() {
            return fault(key.at, format!("`{}` is given twice", section.name));
        }
        section.open(Opened::AsList, key.at);
        Ok(())
    }

    /// Opens or continues a section at a `[[header]]`.
    pub(crate) fn header(&mut self, key: &Key<'a>) -> Result<()> {
        let section = self.section(key)?;
        if section.opened() == Some(Opened::AsList) {
            let message = format!(
                "`{}` was given as a list above: write all of them there, or none",
                section.name
            );
            return fault(key.at, message);
        }
        section.open(Opened::ByHeaders, key.at);
        Ok(())
    }

    /// Takes an object of a section that was opened before.
    pub(crate) fn element(&mut self, section: &str, value: Value<'a>) {
        // If a file has a fault in every line, only the first ones are reported.
        if self.faults.len() > MAX_PROBLEMS {
            return;
        }
        let Some(section) = self.sections.iter_mut().find(|known| known.name == section) else {
            return;
        };
        match section.elements.read(&value, self.tables, &mut self.cursor) {
            Ok(Some(false)) => _ = self.not_adopted.get_or_insert(value.at),
            Ok(_) => {}
            Err(fault) => self.faults.push(fault),
        }
    }

    /// Returns the name of the section that `key` names.
    ///
    /// # Errors
    ///
    /// Fails if there is no such section.
    pub(crate) fn section_name(&self, key: &Key<'_>) -> Result<&'static str> {
        self.position(key).map(|section| self.sections[section].name)
    }

    /// Returns the section that `key` names.
    fn section(&mut self, key: &Key<'_>) -> Result<&mut Section> {
        let section = self.position(key)?;
        Ok(&mut self.sections[section])
    }

    fn position(&self, key: &Key<'_>) -> Result<usize> {
        if let Some((name, example)) = file_keys::find(&key.name) {
            let message = format!("`{name}` is no list of objects: write {example}");
            return fault(key.at, message);
        }
        if let Some(position) = self.sections.iter().position(|known| known.name == key.name) {
            return Ok(position);
        }
        let keys = file_keys::ALL.iter().map(|(name, _)| *name);
        let known: Vec<_> = keys.chain(self.sections.iter().map(|known| known.name)).collect();
        fault(key.at, unknown("section", &key.name, "a file", &known))
    }

    /// Takes the faults, once the whole file was read.
    pub(crate) fn take_faults(&mut self) -> Vec<Fault> {
        let mut faults = std::mem::take(&mut self.faults);
        if let Some(at) = self.not_adopted.filter(|_| self.settings.adopt) {
            let message = "adopt = false, and adopt = true at the top is for every object: remove \
                           one of the two";
            faults.push(Fault { at, message: message.to_owned() });
        }
        let Settings { protocol, protocol_is_mine, .. } = self.settings;
        if !protocol_is_mine && let Some(message) = self.tables.claim_on(protocol) {
            faults.push(Fault { at: self.protocol_at, message });
        }
        faults.extend(self.sections.iter().filter_map(|it| it.missing(&self.given)));
        faults
    }

    /// Finds objects with the same key as an earlier one.
    pub(crate) fn duplicates(&self) -> Vec<Diagnostic> {
        self.sections.iter().flat_map(|section| section.elements.duplicates()).collect()
    }

    /// Returns the declared values with their locations.
    pub(crate) fn finish(self) -> File {
        let mut file = File {
            settings: self.settings,
            desired: Desired::default().with_nexthops(self.nexthops),
            ..File::default()
        };
        for section in self.sections.into_iter().filter(|section| section.opened().is_some()) {
            section.elements.declare(&mut file);
        }
        if let Some(sysctls) = self.sysctls {
            file.sysctl = Some(sysctls.desired);
            file.locations.sysctls = sysctls.locations;
        }
        file
    }
}

/// Returns an empty section for each sort, and then one for each name in `own`.
fn sections(own: &[&'static str]) -> Vec<Section> {
    let others = [
        Section::new("export", &[], |read, file| {
            file.exports = Some(read.elements);
            read.locations
        })
        .needing(WORLD),
        Section::new(COLLECT, &[], |read, file| {
            file.collects = Some(read.elements);
            read.locations
        })
        .needing(WORLD),
        Section::new(FILE, &[], |read, file| {
            file.files = Some(read.elements);
            read.locations
        }),
        Section::new(EXEC, &[], |read, file| {
            file.execs = Some(read.elements);
            read.locations
        }),
    ];
    kinds::sections()
        .into_iter()
        .chain(others)
        .chain(own.iter().copied().map(Section::own))
        .collect()
}
