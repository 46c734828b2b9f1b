//! A section of a file: a list of tables of one sort. How it was opened is the same for every
//! section; the elements are of one sort or another, those of another crate among them.

use std::collections::BTreeSet;

use serde_json::{Map, Number};

use crate::element::{Declared, Element};
use crate::error::Diagnostic;
use crate::file::{File, OwnElement};
use crate::file_keys;
use crate::location::{Cursor, Location};
use crate::tables::TableNames;
use crate::value::{Fault, Node, Result, Value};

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
    /// The name, as in `[[route]]`.
    pub(crate) name: &'static str,
    /// The table at the top of the file that the section needs, if any.
    needs: Option<&'static str>,
    /// How it was opened, and the byte at which it was first; `None` if it is not in the file.
    opened: Option<(Opened, usize)>,
    pub(crate) elements: Box<dyn Elements>,
}

impl Section {
    /// Makes a section that is not in the file yet. `declare` puts what was read into the file, and
    /// returns the locations in the order in which the file has the elements. These may have the
    /// keys `more` beside their own.
    pub(crate) fn new<T: Element + 'static>(
        name: &'static str,
        more: &'static [&'static str],
        declare: fn(Declared<T>, &mut File) -> Vec<Location>,
    ) -> Section {
        let declared =
            Declared { elements: Vec::new(), locations: Vec::new(), adopted: BTreeSet::new() };
        let elements = Box::new(List { name, more, declare, declared });
        Section { name, needs: None, opened: None, elements }
    }

    /// Makes a section whose elements another crate reads.
    pub(crate) fn own(name: &'static str) -> Section {
        let elements = Box::new(OwnElements { name, elements: Vec::new() });
        Section { name, needs: None, opened: None, elements }
    }

    /// Says that the section needs a table at the top of the file.
    pub(crate) fn needing(self, table: &'static str) -> Section {
        Section { needs: Some(table), ..self }
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
        let table = self.needs.filter(|it| !given.contains(it))?;
        let (_, example) = file_keys::find(table)?;
        let message = format!("`{}` needs `{table}`: write {example}", self.name);
        Some(Fault { at, message })
    }
}

/// The elements of a section.
pub(crate) trait Elements {
    /// Adds an element. Returns its `adopt`, if it is given.
    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>>;

    /// Finds the elements whose key an earlier one has.
    fn duplicates(&self) -> Vec<Diagnostic>;

    /// Puts the elements into the file, with their locations.
    fn declare(self: Box<Self>, file: &mut File);
}

struct List<T> {
    name: &'static str,
    more: &'static [&'static str],
    declare: fn(Declared<T>, &mut File) -> Vec<Location>,
    declared: Declared<T>,
}

impl<T: Element> Elements for List<T> {
    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>> {
        self.declared.read(value, self.more, tables, || cursor.location(value.at))
    }

    fn duplicates(&self) -> Vec<Diagnostic> {
        self.declared.duplicates()
    }

    fn declare(self: Box<Self>, file: &mut File) {
        let locations = (self.declare)(self.declared, file);
        file.locations.elements.insert(self.name, locations);
    }
}

struct OwnElements {
    name: &'static str,
    elements: Vec<OwnElement>,
}

impl Elements for OwnElements {
    fn read(
        &mut self,
        value: &Value<'_>,
        _: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>> {
        let location = cursor.location(value.at);
        self.elements.push(OwnElement { location, value: json(value)? });
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
