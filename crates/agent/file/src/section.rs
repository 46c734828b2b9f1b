//! A section of a file: a list of tables of one sort. All sections are opened in the same ways. The
//! elements differ by sort, including those of another crate.

use std::collections::BTreeSet;

use serde_json::{Map, Number};

use crate::element::{Declared, Element};
use crate::error::Diagnostic;
use crate::file::{File, OwnElement};
use crate::file_keys;
use crate::location::{Cursor, Location};
use crate::tables::TableNames;
use crate::value::{Fault, Node, Result, Value};

/// The way a section was opened. It decides if more elements may be added.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Opened {
    /// By one list: `route = [ ... ]`.
    AsList,
    /// By a `[[header]]` for each element.
    ByHeaders,
}

/// A section of a file.
pub(crate) struct Section {
    /// The name, as in `[[route]]`.
    pub(crate) name: &'static str,
    /// The table that must be at the top of the file if the section is used.
    needs: Option<&'static str>,
    /// The way the section was opened, and the byte at which it first was. `None` if it is not in
    /// the file.
    opened: Option<(Opened, usize)>,
    pub(crate) elements: Box<dyn Elements>,
}

impl Section {
    /// Makes a section that is not in the file yet. `declare` puts the elements into the file, and
    /// returns their locations in the order of the file's list. Elements may have the keys `more`
    /// beside their own.
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

    /// Makes the section require a table at the top of the file.
    pub(crate) fn needing(self, table: &'static str) -> Section {
        Section { needs: Some(table), ..self }
    }

    /// Returns the way the section was opened. `None` if it is not in the file.
    pub(crate) fn opened(&self) -> Option<Opened> {
        self.opened.map(|(how, _)| how)
    }

    /// Opens the section at a byte of the file, or continues it.
    pub(crate) fn open(&mut self, how: Opened, at: usize) {
        self.opened.get_or_insert((how, at));
    }

    /// Returns a fault if the section is in the file and `given` lacks the table that it needs.
    pub(crate) fn missing(&self, given: &[&str]) -> Option<Fault> {
        let (_, at) = self.opened?;
        let table = self.needs.filter(|it| !given.contains(it))?;
        let (_, example) = file_keys::find(table)?;
        let message = format!("`{}` needs `{table}`: write {example}", self.name);
        Some(Fault { at, message })
    }
}

/// The elements of a section, without their type.
pub(crate) trait Elements {
    /// Adds an element. Returns its `adopt`, if given.
    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>>;

    /// Finds elements with the same key as an earlier one.
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
