//! The desired-state file: from TOML or JSON to the objects it declares, and back.
//!
//! Everything that can be wrong with a file is found here, without asking the kernel, and told
//! with line, column and what to write instead. What only the kernel or the links that exist can
//! tell (an unknown device, a gateway out of reach) comes later; [`Places`] keeps where each
//! object was written, so that it can be told as well. The keys are in `docs/file.md`.
//!
//! A file is read object by object: it may have a million routes.

#![forbid(unsafe_code)]

mod address;
mod error;
mod json;
mod link;
mod neighbour;
mod route;
mod rule;
mod settings;
mod sysctl;
mod tables;
mod toml;
mod twins;
mod value;
mod words;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;

use trueup_diff::{
    Address, Desired, IfName, Kind, Link, Neighbour, NexthopMode, Route, Routes, Rule,
};
use trueup_sysctl as sysctls;

pub use error::{Error, ErrorKind, Problem};
pub use settings::Settings;
pub use tables::Tables;
pub use write::{to_json, to_toml};

use value::{Fault, Fields, Key, Node, Result, Table, Value, fault, unknown};

/// What a file declares.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// What holds for all of it.
    pub settings: Settings,
    /// The objects, in the order of the file, routes in that of their keys; the marker not yet on them.
    pub desired: Desired,
    /// The sysctls; `None` is unmanaged.
    pub sysctl: Option<sysctls::Desired>,
    /// Where each object was written.
    pub places: Places,
}

/// The size of a file that is read at most, in bytes: some ten million routes.
const LIMIT: u64 = 1 << 30;

impl File {
    /// Reads a file. It is JSON if its name ends in `.json` or its text starts with `{`, else TOML.
    ///
    /// Opening a FIFO waits for its other end. A caller that must not wait opens the file itself
    /// and calls [`File::read_from`].
    ///
    /// # Errors
    ///
    /// When the file cannot be read, and when it is no desired state.
    pub fn read(path: &Path, tables: &Tables) -> std::result::Result<File, Error> {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).map_err(|error| Error::unreadable(&name, &error))?;
        File::read_from(&name, file, tables)
    }

    /// Reads a text to its end, 1 GiB at most; `name` is what errors call it.
    ///
    /// # Errors
    ///
    /// When it cannot be read, when it is longer, and when it is no desired state.
    pub fn read_from(
        name: &str,
        text: impl io::Read,
        tables: &Tables,
    ) -> std::result::Result<File, Error> {
        let mut bytes = Vec::new();
        text.take(LIMIT + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::unreadable(name, &error))?;
        if bytes.len() as u64 > LIMIT {
            let message = "is larger than 1 GiB: no desired state is".to_owned();
            let place = None;
            let problems = vec![Problem { place, message }];
            return Err(Error::new(ErrorKind::Unreadable, name, problems));
        }
        File::parse(name, &bytes, tables)
    }

    /// Reads a text; `name` is what errors call it.
    ///
    /// # Errors
    ///
    /// When it is no desired state.
    pub fn parse(name: &str, bytes: &[u8], tables: &Tables) -> std::result::Result<File, Error> {
        let failed = |kind, text: &[u8], mut faults: Vec<Fault>| {
            faults.sort_by_key(|fault| fault.at);
            let mut cursor = Cursor::new(text);
            let problem = |fault: Fault| Problem {
                place: Some(cursor.place(fault.at)),
                message: fault.message,
            };
            Error::new(kind, name, faults.into_iter().map(problem).collect())
        };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let fault = Fault {
                at: error.valid_up_to(),
                message: "this is not UTF-8: save the file as UTF-8 text".to_owned(),
            };
            failed(ErrorKind::Syntax, bytes, vec![fault])
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut collector = Collector::new(text, tables);
        let is_json = name.ends_with(".json") || text.trim_start().starts_with('{');
        let syntax = if is_json {
            json::read(text, &mut collector)
        } else {
            toml::read(text, &mut collector)
        };
        collector.check_refusal();
        let mut faults = std::mem::take(&mut collector.faults);
        if let Err(fault) = syntax {
            faults.push(fault);
            return Err(failed(ErrorKind::Syntax, text.as_bytes(), faults));
        }
        if collector.is_empty() && faults.is_empty() {
            let at = 0;
            let message = "this declares nothing: write a section, such as [[route]], or \
                           `route = []` for no routes"
                .to_owned();
            faults.push(Fault { at, message });
        }
        if !faults.is_empty() {
            return Err(failed(ErrorKind::Invalid, text.as_bytes(), faults));
        }
        let Collector {
            settings,
            declared,
            sysctl,
            mut places,
            ..
        } = collector;
        let twins = twins::find(&declared, &places);
        if !twins.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, name, twins));
        }
        Ok(File {
            settings,
            desired: declared.desired(&mut places),
            sysctl,
            places,
        })
    }
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Where each object of a file was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    objects: [Vec<Place>; Kind::ALL.len()],
    sysctls: BTreeMap<sysctls::Key, Place>,
}

impl Places {
    /// The place of an object, by its kind and its position in the list of that kind, a route by its position in their order.
    pub fn at(&self, kind: Kind, index: usize) -> Option<Place> {
        self.objects[kind as usize].get(index).copied()
    }

    /// The place of a sysctl's key.
    pub fn of_sysctl(&self, key: &sysctls::Key) -> Option<Place> {
        self.sysctls.get(key).copied()
    }
}

/// Turns bytes of a text into places; those asked for must ascend.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    place: Place,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a [u8]) -> Cursor<'a> {
        let place = Place { line: 1, column: 1 };
        Cursor { text, at: 0, place }
    }

    fn place(&mut self, at: usize) -> Place {
        let at = at.clamp(self.at, self.text.len().max(self.at));
        for byte in &self.text[self.at..at] {
            match byte {
                b'\n' => {
                    self.place.line = self.place.line.saturating_add(1);
                    self.place.column = 1;
                }
                // The first byte of a character; the others are 10xxxxxx.
                byte if byte & 0xc0 != 0x80 => {
                    self.place.column = self.place.column.saturating_add(1);
                }
                _ => {}
            }
        }
        self.at = at;
        self.place
    }
}

/// One kind of object in the form of the file: both directions, side by side.
trait Form: Sized + Clone + PartialEq {
    /// Which kind.
    const KIND: Kind;
    /// With its article.
    const WHAT: &'static str;
    /// Every key.
    const KEYS: &'static [&'static str];
    /// What two objects of one file may not share.
    type Key<'a>: Ord
    where
        Self: 'a;

    /// The list of this kind.
    fn list(declared: &mut Declared) -> &mut Option<Vec<Self>>;

    /// Reads an object.
    fn read(fields: &Fields<'_>) -> Result<Self>;

    /// Writes an object, as far as there are keys for it.
    fn write(&self, table: &mut Table<'static>);

    /// The object without what no file says: marker, index, status.
    fn plain(&self) -> Self;

    /// See [`Form::Key`].
    fn key(&self) -> Self::Key<'_>;

    /// The key in words, and what to change where two objects have it.
    fn key_words(&self) -> (String, &'static str);
}

/// An object, and what it says of its adoption.
fn read_object<T: Form>(value: &Value<'_>, tables: &Tables) -> Result<(T, Option<bool>)> {
    let Node::Table(table) = &value.node else {
        return value.unexpected(format_args!("{} as a table {{ ... }}", T::WHAT));
    };
    let fields = Fields::new(T::WHAT, value.at, table, T::KEYS, tables)?;
    Ok((T::read(&fields)?, fields.read("adopt", words::flag)?))
}

/// How a section was opened, which says whether more may be added to it.
#[derive(Clone, Copy, PartialEq)]
enum Opened {
    List,
    Headers,
}

/// Takes what TOML or JSON hold, in the order of the file, and makes objects of it.
struct Collector<'a> {
    tables: &'a Tables,
    cursor: Cursor<'a>,
    settings: Settings,
    /// The keys at the top that were there.
    given: Vec<&'static str>,
    /// The first object that says `adopt = false`.
    refusal: Option<usize>,
    opened: [Option<Opened>; Kind::ALL.len()],
    declared: Declared,
    sysctl: Option<sysctls::Desired>,
    places: Places,
    faults: Vec<Fault>,
}

/// The objects, in the order of the file.
#[derive(Default)]
struct Declared {
    links: Option<Vec<Link<IfName>>>,
    addresses: Option<Vec<Address<IfName>>>,
    neighbours: Option<Vec<Neighbour<IfName>>>,
    routes: Option<Vec<Route<IfName>>>,
    rules: Option<Vec<Rule>>,
    nexthops: NexthopMode,
    /// Those that say so of themselves, by kind and position.
    adopt: BTreeSet<(Kind, usize)>,
}

impl Declared {
    /// As a pass takes them. Routes come in the order of their keys, and so do their places.
    fn desired(self, places: &mut Places) -> Desired {
        let Declared {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            nexthops,
            mut adopt,
        } = self;
        let routes = routes.map(|list| {
            let is_adopted = |position: &usize| adopt.contains(&(Kind::Route, *position));
            let adopted = (0..list.len()).filter(is_adopted);
            let adopted: Vec<_> = adopted
                .map(|position| list[position].canonical_key())
                .collect();
            let of_routes = &mut places.objects[Kind::Route as usize];
            let mut order: Vec<usize> = (0..list.len()).collect();
            order.sort_by_cached_key(|position| list[*position].canonical_key());
            *of_routes = order.iter().map(|position| of_routes[*position]).collect();
            let mut routes: Routes = list.into_iter().collect();
            adopted.into_iter().for_each(|key| routes.adopt(key));
            routes
        });
        adopt.retain(|(kind, _)| *kind != Kind::Route);
        Desired {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            nexthops,
            adopt,
        }
    }
}

impl<'a> Collector<'a> {
    fn new(text: &'a str, tables: &'a Tables) -> Collector<'a> {
        Collector {
            tables,
            cursor: Cursor::new(text.as_bytes()),
            settings: Settings::default(),
            given: Vec::new(),
            refusal: None,
            opened: Default::default(),
            declared: Declared::default(),
            sysctl: None,
            places: Places::default(),
            faults: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.sysctl.is_none() && self.opened.iter().all(Option::is_none)
    }

    /// A pair at the top of the file.
    fn pair(&mut self, key: Key<'a>, value: Value<'a>) -> Result<()> {
        if let Some((name, _)) = settings::key(&key.name) {
            if self.given.contains(&name) {
                return fault(key.at, format!("`{name}` is given twice"));
            }
            self.given.push(name);
            if name == settings::SYSCTL {
                self.sysctls(&value);
                return Ok(());
            }
            if name == settings::NEXTHOPS {
                match settings::shape(&value) {
                    Ok(shape) => self.declared.nexthops = shape,
                    Err(fault) => self.faults.push(fault),
                }
                return Ok(());
            }
            let read = self.settings.read(name, &value, self.tables);
            self.faults.extend(read.err());
            return Ok(());
        }
        match (&*key.name, value.node) {
            (name, Node::List(elements)) => {
                self.list(&key)?;
                for element in elements {
                    self.element(name, element);
                }
                Ok(())
            }
            (name, node) => {
                let kind = section(&key)?;
                let value = Value { at: value.at, node };
                let message = format!(
                    "expected a list of {name} sections, found {}: write [[{}]] above the keys, \
                     or {name} = []",
                    value.sort(),
                    kind.name(),
                );
                fault(value.at, message)
            }
        }
    }

    /// A section given as one list, at its key.
    fn list(&mut self, key: &Key<'a>) -> Result<()> {
        let kind = section(key)?;
        if self.opened[kind as usize].is_some() {
            return fault(key.at, format!("`{kind}` is given twice"));
        }
        self.open(kind, Opened::List);
        Ok(())
    }

    /// A `[[header]]`.
    fn append(&mut self, key: &Key<'a>) -> Result<()> {
        let kind = section(key)?;
        if self.opened[kind as usize] == Some(Opened::List) {
            let message =
                format!("`{kind}` was given as a list above: write all of them there, or none");
            return fault(key.at, message);
        }
        self.open(kind, Opened::Headers);
        Ok(())
    }

    fn open(&mut self, kind: Kind, how: Opened) {
        self.opened[kind as usize] = Some(how);
        let desired = &mut self.declared;
        match kind {
            Kind::Link => _ = desired.links.get_or_insert_default(),
            Kind::Address => _ = desired.addresses.get_or_insert_default(),
            Kind::Neighbour => _ = desired.neighbours.get_or_insert_default(),
            Kind::Route => _ = desired.routes.get_or_insert_default(),
            Kind::Rule => _ = desired.rules.get_or_insert_default(),
            // No section: a shape of routes.
            Kind::Nexthop => {}
        }
    }

    /// An object of a section that was opened before.
    fn element(&mut self, section: &str, value: Value<'a>) {
        // A file of which every line is wrong is not judged to its end.
        if self.faults.len() > error::SHOWN {
            return;
        }
        match Kind::DECLARED
            .into_iter()
            .find(|kind| kind.name() == section)
        {
            Some(Kind::Link) => self.object::<Link<_>>(&value),
            Some(Kind::Address) => self.object::<Address<_>>(&value),
            Some(Kind::Neighbour) => self.object::<Neighbour<_>>(&value),
            Some(Kind::Route) => self.object::<Route<_>>(&value),
            Some(Kind::Rule) => self.object::<Rule>(&value),
            Some(Kind::Nexthop) | None => {}
        }
    }

    fn object<T: Form>(&mut self, value: &Value<'a>) {
        match read_object::<T>(value, self.tables) {
            Ok((object, adopt)) => {
                self.places.objects[T::KIND as usize].push(self.cursor.place(value.at));
                let list = T::list(&mut self.declared).get_or_insert_default();
                list.push(object);
                let position = (T::KIND, list.len() - 1);
                match adopt {
                    Some(true) => _ = self.declared.adopt.insert(position),
                    Some(false) => _ = self.refusal.get_or_insert(value.at),
                    None => {}
                }
            }
            Err(fault) => self.faults.push(fault),
        }
    }

    /// What is adopted as a whole is adopted without exception.
    fn check_refusal(&mut self) {
        if let Some(at) = self.refusal.filter(|_| self.settings.adopt) {
            let message = "adopt = false, and adopt = true at the top is for every object: take \
                           one of the two out"
                .to_owned();
            self.faults.push(Fault { at, message });
        }
    }
}

fn section(key: &Key<'_>) -> Result<Kind> {
    if let Some((name, example)) = settings::key(&key.name) {
        let message = format!("`{name}` is no list of objects: write {example}");
        return fault(key.at, message);
    }
    let found = Kind::DECLARED
        .into_iter()
        .find(|kind| kind.name() == key.name);
    found.map_or_else(
        || {
            let known: Vec<_> = settings::keys()
                .chain(Kind::DECLARED.map(Kind::name))
                .collect();
            fault(key.at, unknown("section", &key.name, "a file", &known))
        },
        Ok,
    )
}
