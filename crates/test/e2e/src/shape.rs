//! The shapes of JSON on a page, and a check of the program's output against them.
//!
//! A block of shapes has lines that begin with `NAME: {`, or continue with `| {`. These are shapes:
//!
//! - `{ "a", "b"?: number, …NAME }`: an object with exactly these keys. A key without a type is a
//!   text, one with `?` may be missing, and `…NAME` stands for the keys of another shape.
//! - `{ KIND: S }`: an object with any keys.
//! - `[ S ]`: a list; `S | S`: one of two; `"a|b"`: one of these texts.
//! - `text`, `number`, `bool`, `null`, and the name of another shape.
//!
//! A text after a shape is a comment.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::page::{Page, report};

/// The shapes on one page.
pub struct Shapes {
    page: String,
    named: Vec<Named>,
    /// The keys and types that some checked value had.
    seen: Mutex<BTreeSet<Place>>,
}

/// The documented shapes of the commands and of the events of `watch`.
pub struct Shown {
    pub commands: Shapes,
    pub world: Shapes,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown {
            commands: Shapes::of(&Page::read("crates/agent/cli/README.md")),
            world: Shapes::of(&Page::read("docs/world.md")),
        }
    }
}

impl Shown {
    /// Checks the output of `trueup` with these arguments, if it is JSON with a documented shape.
    #[track_caller]
    pub fn check_output(&self, args: &[&str], out: &str) {
        let is_json = args.windows(2).any(|words| words == ["--format", "json"]);
        let shown = match args {
            ["why", "file" | "exec", ..] => "vertex",
            [command @ ("plan" | "apply" | "graph" | "why" | "doctor"), ..] => command,
            _ => return,
        };
        if !is_json || out.is_empty() {
            return;
        }
        let value = serde_json::from_str(out)
            .unwrap_or_else(|error| panic!("{args:?}: not one line: {error}: {out}"));
        self.commands.check(shown, &value);
    }

    /// Checks an event of `watch` against the shape of its kind.
    #[track_caller]
    pub fn check_event(&self, event: &Value) {
        let mut event = event.clone();
        let members = event.as_object_mut().unwrap();
        let (name, time) = (members.remove("event"), members.remove("time"));
        assert!(time.is_some_and(|it| it.is_number()), "{event}");
        match name.as_ref().and_then(Value::as_str).unwrap() {
            "world" => self.world.check("world", &event),
            name => self.commands.check_beside("report", name, &event),
        }
    }
}

/// A line of the page, and the key and type on it.
type Place = (usize, String);

struct Named {
    /// The number of its block, in which names are looked up first.
    block: usize,
    line: usize,
    name: String,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Text,
    Number,
    Bool,
    Null,
    /// One of these texts.
    Word(Vec<String>),
    List(Box<Shape>),
    Any(Vec<Shape>),
    Object(Vec<Member>),
    /// An object with any keys.
    Map(Box<Shape>),
    Of(String),
}

#[derive(Clone, Debug)]
enum Member {
    Key { line: usize, key: String, is_optional: bool, shape: Shape },
    Spread(String),
}

impl Shapes {
    /// Reads the shapes in all blocks of a page that begin with one.
    pub fn of(page: &Page) -> Shapes {
        let mut named = Vec::new();
        for (block, found) in page.blocks().iter().enumerate() {
            let mut parser = Parser { page, line: found.line, rest: found.text };
            while let Some(name) = parser.heading() {
                let line = parser.line;
                let shape = parser.any();
                parser.comment();
                named.push(Named { block, line, name, shape });
            }
            let is_of_shapes = named.last().is_some_and(|it: &Named| it.block == block);
            if is_of_shapes {
                assert!(parser.rest.trim().is_empty(), "{}", parser.at("no shape"));
            }
        }
        Shapes { page: page.name.clone(), named, seen: Mutex::default() }
    }

    /// Fails unless a value has the shape with this name, from the first block that has it.
    #[track_caller]
    pub fn check(&self, name: &str, value: &Value) {
        self.check_beside(name, name, value);
    }

    /// Does the same as [`Shapes::check`], for the block of another shape.
    #[track_caller]
    pub fn check_beside(&self, beside: &str, name: &str, value: &Value) {
        let block = self.named[self.find(usize::MAX, beside)].block;
        let found = &self.named[self.find(block, name)];
        let mut seen = BTreeSet::new();
        if let Err(why) = self.matches(found.block, &found.shape, value, name, &mut seen) {
            panic!("\n{}:{}: {why}\n{value}", self.page, found.line);
        }
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(seen);
    }

    /// Fails unless checked values had each key of the shapes in this one's block, with each of its
    /// types except null. `left_out` are keys with their types, as the failure names them.
    #[track_caller]
    pub fn assert_all_seen_of(&self, name: &str, left_out: &[&str]) {
        let block = self.named[self.find(usize::MAX, name)].block;
        let mut places = BTreeSet::new();
        for named in self.named.iter().filter(|it| it.block == block) {
            all_places(&named.shape, &mut places);
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let missing =
            places.difference(&seen).filter(|(_, what)| !left_out.contains(&what.as_str()));
        report(
            missing
                .map(|(line, what)| format!("{}:{line}: no checked output has {what}", self.page)),
        );
    }

    /// Returns the shape with this name: from the block, or else from any.
    fn find(&self, block: usize, name: &str) -> usize {
        let of = |it: &Named| it.name == name;
        let found = self
            .named
            .iter()
            .position(|it| it.block == block && of(it))
            .or_else(|| self.named.iter().position(of));
        found.unwrap_or_else(|| panic!("{}: no shape is named {name}", self.page))
    }

    fn matches(
        &self,
        block: usize,
        shape: &Shape,
        value: &Value,
        path: &str,
        seen: &mut BTreeSet<Place>,
    ) -> Result<(), String> {
        let is = |fits: bool, what: &str| {
            if fits { Ok(()) } else { Err(format!("{path} is {value}, and no {what}")) }
        };
        match shape {
            Shape::Text => is(value.is_string(), "text"),
            Shape::Number => is(value.is_number(), "number"),
            Shape::Bool => is(value.is_boolean(), "bool"),
            Shape::Null => is(value.is_null(), "null"),
            Shape::Word(words) => {
                let fits = value.as_str().is_some_and(|it| words.iter().any(|word| word == it));
                is(fits, &words.join("|"))
            }
            Shape::List(of) => {
                let Some(list) = value.as_array() else {
                    return is(false, "list");
                };
                let mut each = list.iter().enumerate();
                each.try_for_each(|(at, it)| {
                    self.matches(block, of, it, &format!("{path}[{at}]"), seen)
                })
            }
            Shape::Map(of) => {
                let Some(map) = value.as_object() else {
                    return is(false, "object");
                };
                let mut each = map.iter();
                each.try_for_each(|(key, it)| {
                    self.matches(block, of, it, &format!("{path}.{key}"), seen)
                })
            }
            Shape::Of(name) => {
                let named = &self.named[self.find(block, name)];
                self.matches(named.block, &named.shape, value, path, seen)
            }
            Shape::Any(shapes) => {
                let mut whys = Vec::new();
                for shape in shapes {
                    let mut of_this = BTreeSet::new();
                    match self.matches(block, shape, value, path, &mut of_this) {
                        Ok(()) => {
                            seen.extend(of_this);
                            return Ok(());
                        }
                        Err(why) => whys.push(why),
                    }
                }
                Err(whys.join("; or "))
            }
            Shape::Object(members) => {
                let Some(object) = value.as_object() else {
                    return is(false, "object");
                };
                let mut whys = Vec::new();
                for keys in self.spread(block, members) {
                    let mut of_this = BTreeSet::new();
                    match self.has_keys(&keys, object, path, &mut of_this) {
                        Ok(()) => {
                            seen.extend(of_this);
                            return Ok(());
                        }
                        Err(why) => whys.push(why),
                    }
                }
                Err(whys.join("; or "))
            }
        }
    }

    /// Compares an object's keys and values with one list of members.
    fn has_keys(
        &self,
        keys: &[(usize, &Member)],
        object: &serde_json::Map<String, Value>,
        path: &str,
        seen: &mut BTreeSet<Place>,
    ) -> Result<(), String> {
        let mut expected = BTreeSet::new();
        for (block, member) in keys {
            let Member::Key { line, key, is_optional, shape } = member else {
                continue;
            };
            expected.insert(key.as_str());
            match object.get(key) {
                Some(value) => {
                    let path = format!("{path}.{key}");
                    self.matches(*block, shape, value, &path, seen)
                        .map_err(|why| format!("{why} (line {line})"))?;
                    seen.insert(place(*line, key, type_of(value)));
                }
                None if *is_optional => {}
                None => return Err(format!("{path} has no \"{key}\" (line {line})")),
            }
        }
        let unknown = object.keys().find(|key| !expected.contains(key.as_str()));
        match unknown {
            Some(key) => Err(format!("{path} has \"{key}\" as well")),
            None => Ok(()),
        }
    }

    /// Replaces the names of other shapes with their members: returns a list for each combination
    /// of alternatives.
    fn spread<'a>(&'a self, block: usize, members: &'a [Member]) -> Vec<Vec<(usize, &'a Member)>> {
        let mut all = vec![Vec::new()];
        for member in members {
            let choices = match member {
                Member::Key { .. } => vec![vec![(block, member)]],
                Member::Spread(name) => {
                    let named = &self.named[self.find(block, name)];
                    let shapes = match &named.shape {
                        Shape::Any(shapes) => shapes.as_slice(),
                        one => std::slice::from_ref(one),
                    };
                    let objects = shapes.iter().flat_map(|shape| match shape {
                        Shape::Object(members) => self.spread(named.block, members),
                        _ => panic!("{}: …{name} has no keys", self.page),
                    });
                    objects.collect()
                }
            };
            let longer = all.iter().flat_map(|keys: &Vec<(usize, &Member)>| {
                choices
                    .iter()
                    .map(|choice| [keys.clone(), choice.clone()].concat())
                    .collect::<Vec<_>>()
            });
            all = longer.collect();
        }
        all
    }
}

fn place(line: usize, key: &str, type_: &str) -> Place {
    (line, format!("\"{key}\": {type_}"))
}

/// Names the type of a value; an empty list has no type of elements.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Array(list) if list.is_empty() => "empty",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
    }
}

/// Adds all places of a shape except null.
fn all_places(shape: &Shape, places: &mut BTreeSet<Place>) {
    match shape {
        Shape::List(of) | Shape::Map(of) => all_places(of, places),
        Shape::Any(shapes) => shapes.iter().for_each(|it| all_places(it, places)),
        Shape::Object(members) => {
            for member in members {
                if let Member::Key { line, key, shape, .. } = member {
                    places.extend(types(shape).iter().map(|it| place(*line, key, it)));
                    all_places(shape, places);
                }
            }
        }
        _ => {}
    }
}

fn types(shape: &Shape) -> Vec<&'static str> {
    match shape {
        Shape::Text | Shape::Word(_) => vec!["text"],
        Shape::Number => vec!["number"],
        Shape::Bool => vec!["bool"],
        Shape::Null => vec![],
        Shape::List(_) => vec!["list"],
        Shape::Any(shapes) => shapes.iter().flat_map(types).collect(),
        Shape::Object(_) | Shape::Map(_) | Shape::Of(_) => vec!["object"],
    }
}

struct Parser<'a> {
    page: &'a Page,
    line: usize,
    rest: &'a str,
}

impl Parser<'_> {
    fn at(&self, what: &str) -> String {
        let rest: String = self.rest.chars().take(60).collect();
        format!("{}: {what}: {rest:?}", self.page.at(self.line))
    }

    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.matches('\n').count();
        self.rest = rest;
    }

    fn space(&mut self) {
        let trimmed = self.rest.trim_start();
        self.skip(self.rest.len() - trimmed.len());
    }

    /// Consumes a sign and the space before it, if that comes next.
    fn takes(&mut self, sign: &str) -> bool {
        let next = self.rest.trim_start();
        let takes = next.starts_with(sign);
        if takes {
            self.skip(self.rest.len() - next.len() + sign.len());
        }
        takes
    }

    /// Consumes `NAME:` before a `{`.
    fn heading(&mut self) -> Option<String> {
        self.space();
        let (name, rest) = self.rest.split_once(':')?;
        let is_name =
            !name.is_empty() && name.chars().all(|it| it.is_ascii_lowercase() || it == '_');
        if !is_name || !rest.trim_start().starts_with('{') {
            return None;
        }
        let name = name.to_owned();
        self.skip(name.len() + 1);
        self.space();
        Some(name)
    }

    /// Skips the rest of a line.
    fn comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.skip(end);
    }

    fn any(&mut self) -> Shape {
        let mut shapes = vec![self.one()];
        while self.takes("|") {
            shapes.push(self.one());
        }
        match shapes.len() {
            1 => shapes.remove(0),
            _ => Shape::Any(shapes),
        }
    }

    fn one(&mut self) -> Shape {
        if self.takes("[") {
            let of = self.any();
            assert!(self.takes("]"), "{}", self.at("no ]"));
            return Shape::List(Box::new(of));
        }
        if self.takes("{") {
            return self.object();
        }
        if self.takes("\"") {
            let words = self.quoted();
            return Shape::Word(words.split('|').map(str::to_owned).collect());
        }
        match &*self.word() {
            "text" => Shape::Text,
            "number" => Shape::Number,
            "bool" => Shape::Bool,
            "null" => Shape::Null,
            name => Shape::Of(name.to_owned()),
        }
    }

    fn object(&mut self) -> Shape {
        let mut members = Vec::new();
        while !self.takes("}") {
            if self.takes("…") {
                members.push(Member::Spread(self.word()));
            } else if self.takes("\"") {
                let line = self.line;
                let key = self.quoted();
                let is_optional = self.takes("?");
                let shape = if self.takes(":") { self.any() } else { Shape::Text };
                members.push(Member::Key { line, key, is_optional, shape });
            } else {
                // Any word stands for the key.
                self.word();
                assert!(self.takes(":"), "{}", self.at("no :"));
                let of = self.any();
                assert!(self.takes("}"), "{}", self.at("no }"));
                return Shape::Map(Box::new(of));
            }
            if !self.takes(",") {
                assert!(self.takes("}"), "{}", self.at("no }"));
                break;
            }
        }
        Shape::Object(members)
    }

    fn quoted(&mut self) -> String {
        let Some(end) = self.rest.find('"') else { panic!("{}", self.at("no end of a quote")) };
        let text = self.rest[..end].to_owned();
        self.skip(end + 1);
        text
    }

    fn word(&mut self) -> String {
        self.space();
        let is_in = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let end = self.rest.find(|it| !is_in(it)).unwrap_or(self.rest.len());
        assert!(end > 0, "{}", self.at("no word"));
        let word = self.rest[..end].to_owned();
        self.skip(end);
        word
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use serde_json::json;

    use super::*;

    fn shapes() -> Shapes {
        let text = "```\na: { \"x\": number|null, \"y\"?: [ b ], …c }   a comment\n\nb: { \"k\": \"one|two\" }\n\
                    c: { \"kind\": \"p\", \"p\" }\n | { \"kind\": \"q\" }\nd: { KEY: number }\n```\n";
        Shapes::of(&Page { name: "page.md".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_value_has_the_keys_and_types_of_its_shape_and_no_other() {
        let shapes = shapes();
        for good in [
            json!({ "x": 1, "y": [{ "k": "two" }], "kind": "p", "p": "" }),
            json!({ "x": null, "kind": "q" }),
        ] {
            shapes.check("a", &good);
        }
        shapes.check("d", &json!({ "any": 1 }));
        shapes.assert_all_seen_of("a", &[]);
        for bad in [
            json!({ "kind": "q" }),
            json!({ "x": "1", "kind": "q" }),
            json!({ "x": 1, "kind": "q", "p": "" }),
            json!({ "x": 1, "kind": "q", "z": 1 }),
            json!({ "x": 1, "y": [{ "k": "three" }], "kind": "q" }),
        ] {
            assert!(catch_unwind(|| super::tests::shapes().check("a", &bad)).is_err(), "{bad}");
        }
    }

    #[test]
    #[should_panic(expected = "page.md:4: no checked output has \"k\": text")]
    fn what_was_not_seen_is_named() {
        let shapes = shapes();
        shapes.check("a", &json!({ "x": null, "kind": "q" }));
        shapes.assert_all_seen_of("a", &[]);
    }
}
