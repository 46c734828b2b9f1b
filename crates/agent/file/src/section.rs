//! A section of a file: a list of tables of one sort. How it was opened is the same for every
//! section; the elements are of one sort or another, those of another crate among them.

use serde_json::{Map, Number};
use trueup_net::{Desired, Kind};

use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::file::{File, OwnElement};
use crate::file_keys;
use crate::location::{Cursor, Location};
use crate::tables::TableNames;
use crate::value::{Fault, Node, Result, Table, Value};

/// How a section was opened, which says whether more may be added to it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Opened {
    /// As one list: `route = [ ... ]`.
    AsList,
    /// By a `[[header]]` for each element.
    ByHeaders,
}

/// A section of a file.
pub(crate) struct Section {
    /// How it was opened, and the byte at which it was first; `None` if it is not in the file.
    opened: Option<(Opened, usize)>,
    pub(crate) elements: Box<dyn Elements>,
}

impl Section {
    /// Makes the section of these elements, which is not in the file yet.
    pub(crate) fn new(elements: Box<dyn Elements>) -> Section {
        Section { opened: None, elements }
    }

    /// Returns how the section was opened; `None` if it is not in the file.
    pub(crate) fn opened(&self) -> Option<Opened> {
        self.opened.map(|(how, _)| how)
    }

    /// Opens the section at a byte of the file, or goes on with it.
    pub(crate) fn open(&mut self, how: Opened, at: usize) {
        self.opened.get_or_insert((how, at));
    }

    /// Returns the fault if the section is in the file, and the table that it needs is not among
    /// `given`.
    pub(crate) fn missing(&self, given: &[&str]) -> Option<Fault> {
        let (_, at) = self.opened?;
        let table = self.elements.needs().filter(|it| !given.contains(it))?;
        let (_, example) = file_keys::find(table)?;
        let message = format!("`{}` needs `{table}`: write {example}", self.elements.name());
        Some(Fault { at, message })
    }

    /// Puts the elements into the file, if the section was opened.
    pub(crate) fn declare(self, file: &mut File) {
        if self.opened.is_some() {
            self.elements.declare(file);
        }
    }
}

/// The elements of a section.
pub(crate) trait Elements {
    /// Returns the name of the section, as in `[[route]]`.
    fn name(&self) -> &'static str;

    /// Returns the table at the top of the file that the section needs, if any.
    fn needs(&self) -> Option<&'static str> {
        None
    }

    /// Adds an element. Returns its `adopt`, if it is given.
    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>>;

    /// Finds the elements whose key an earlier one has. The kernel, say, would hold one of the two,
    /// by chance.
    fn duplicates(&self) -> Vec<Diagnostic>;

    /// Puts the elements into the file, with their locations.
    fn declare(self: Box<Self>, file: &mut File);

    /// Writes what `desired` has of this section, unless it is unmanaged.
    fn write(&self, _desired: &Desired, _out: &mut dyn Output) {}
}

/// The elements of a section that are no objects of the kernel.
pub(crate) struct List<T> {
    /// The place of the elements in a file.
    place: fn(&mut File) -> &mut Option<Vec<T>>,
    elements: Vec<T>,
    locations: Vec<Location>,
}

impl<T> List<T> {
    /// Makes an empty list, for a place in a file.
    pub(crate) fn at(place: fn(&mut File) -> &mut Option<Vec<T>>) -> List<T> {
        List { place, elements: Vec::new(), locations: Vec::new() }
    }
}

impl<T: Element> Elements for List<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn needs(&self) -> Option<&'static str> {
        T::NEEDS
    }

    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>> {
        let table = value.table(T::WITH_ARTICLE)?;
        let fields = Fields::new(T::WITH_ARTICLE, value.at, table, &[T::KEYS], tables)?;
        self.elements.push(T::read(&fields)?);
        self.locations.push(cursor.location(value.at));
        Ok(None)
    }

    fn duplicates(&self) -> Vec<Diagnostic> {
        duplicates(&self.elements, &self.locations)
    }

    fn declare(self: Box<Self>, file: &mut File) {
        *(self.place)(file) = Some(self.elements);
        file.locations.elements.insert(T::NAME, self.locations);
    }
}

/// Returns an empty section for each of these names.
pub(crate) fn own_sections(names: &[&'static str]) -> Vec<Box<dyn Elements>> {
    let sections = names.iter().map(|name| OwnSection { name, elements: Vec::new() });
    sections.map(|section| Box::new(section) as Box<dyn Elements>).collect()
}

struct OwnSection {
    name: &'static str,
    elements: Vec<OwnElement>,
}

impl Elements for OwnSection {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(
        &mut self,
        value: &Value<'_>,
        _: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>> {
        let location = cursor.location(value.at);
        let value = json(value)?;
        self.elements.push(OwnElement { location, value });
        Ok(None)
    }

    fn duplicates(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn declare(self: Box<Self>, file: &mut File) {
        file.own_sections.insert(self.name, self.elements);
    }
}

fn json(value: &Value<'_>) -> Result<serde_json::Value> {
    Ok(match &value.node {
        Node::Text(text) => text.as_ref().into(),
        Node::Integer(number) => (*number).into(),
        Node::Bool(flag) => (*flag).into(),
        Node::Fraction(number) => match Number::from_f64(*number) {
            Some(number) => number.into(),
            None => return value.unexpected("a finite number"),
        },
        Node::List(values) => values.iter().map(json).collect::<Result<Vec<_>>>()?.into(),
        Node::Table(table) => {
            let pairs = table.iter().map(|(key, value)| Ok((key.name.to_string(), json(value)?)));
            pairs.collect::<Result<Map<_, _>>>()?.into()
        }
        Node::Other(_) => return value.unexpected("a value"),
    })
}

/// A writer of sections: TOML or JSON.
pub(crate) trait Output {
    /// Takes the objects of a section.
    fn section(&mut self, kind: Kind, objects: &mut dyn Iterator<Item = Written>);
}

/// The keys of an object, or why a file cannot declare it.
pub(crate) type Written = std::result::Result<Table<'static>, Unwritable>;

/// An object that a file cannot declare.
pub(crate) struct Unwritable {
    /// The object, by its kind and key.
    pub(crate) object: String,
    /// The reason.
    pub(crate) why: String,
}

/// An element of a section that has no objects of the kernel.
pub(crate) trait Element: Keyed + 'static {
    /// The name of the section.
    const NAME: &'static str;
    /// The word for one element, with its article.
    const WITH_ARTICLE: &'static str;
    /// The table at the top of the file that the section needs, if any.
    const NEEDS: Option<&'static str> = None;
    /// The keys.
    const KEYS: &'static [&'static str];

    /// Reads an element.
    fn read(fields: &Fields<'_>) -> Result<Self>
    where
        Self: Sized;
}

/// An element that shares its key with no other of its section.
pub(crate) trait Keyed {
    /// What the user may change if two have the same key: "another name".
    const REMEDY: &'static str;
    /// What two elements of one file may not share.
    type Key: Ord;

    /// Returns the key.
    fn key(&self) -> Self::Key;

    /// Names the element by its sort and key, for messages.
    fn describe(&self) -> String;
}

/// Finds the elements whose key an earlier one has.
pub(crate) fn duplicates<T: Keyed>(elements: &[T], locations: &[Location]) -> Vec<Diagnostic> {
    let key = |position: &usize| elements[*position].key();
    let mut order: Vec<usize> = (0..elements.len()).collect();
    // Stable, so that of elements with one key the first in the file comes first.
    order.sort_by_key(key);
    let mut diagnostics = Vec::new();
    for same in order.chunk_by(|a, b| key(a) == key(b)) {
        let [first, others @ ..] = same else { continue };
        diagnostics.extend(others.iter().map(|other| Diagnostic {
            location: Some(locations[*other]),
            message: format!(
                "a second {}: the first is at {}; remove one, or give it {}",
                elements[*other].describe(),
                locations[*first],
                T::REMEDY,
            ),
        }));
    }
    diagnostics
}
