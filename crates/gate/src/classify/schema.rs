//! Reads a tool's `inputSchema` as far as the names and kinds of arguments go: `$ref` within the schema, `allOf`,
//! `anyOf`, `oneOf` and their like are looked through. The schema comes from the server, so every walk is bounded.

use std::{borrow::Cow, cell::Cell};

use serde_json::{Map, Value};

use super::name_pattern::NamePattern;

/// How many steps all walks for one call may take together: the elements of a list multiply with the alternatives
/// that each of them has.
const MOST_STEPS: usize = 200_000;
const MOST_BRANCHES: usize = 512;
const DEEPEST: usize = 48;

/// Deeper or wider than we look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooLarge {
    Schema,
    /// The arguments, or they and the schema together.
    Call,
}

/// What is left of the steps for one call.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Self {
        Budget(Cell::new(MOST_STEPS))
    }
}

impl Budget {
    pub fn spend(&self, steps: usize) -> Result<(), TooLarge> {
        self.0.set(self.0.get().checked_sub(steps).ok_or(TooLarge::Call)?);
        Ok(())
    }
}

/// Everything that may describe one value.
#[derive(Debug, Default)]
pub(super) struct Branches<'a> {
    all: Vec<Branch<'a>>,
    /// A reference that leads nowhere, or out of the schema: what it would allow is not known, so it allows nothing.
    unresolved: bool,
    /// `true` as a schema.
    anything: bool,
}

#[derive(Debug, Clone, Copy)]
struct Branch<'a> {
    schema: &'a Map<String, Value>,
    /// Holds for every value, not for one alternative only.
    mandatory: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Schema<'a> {
    pub root: &'a Value,
    pub budget: &'a Budget,
}

impl<'a> Schema<'a> {
    pub fn new(root: &'a Value, budget: &'a Budget) -> Self {
        Schema { root, budget }
    }

    pub fn branches(&self, schemas: &[&'a Value]) -> Result<Branches<'a>, TooLarge> {
        let mut found = Branches::default();
        for schema in schemas {
            // Several descriptions of one value are alternatives; one alone holds.
            self.collect(schema, schemas.len() == 1, 0, &mut found)?;
        }
        Ok(found)
    }

    fn collect(
        &self,
        schema: &'a Value,
        mandatory: bool,
        depth: usize,
        found: &mut Branches<'a>,
    ) -> Result<(), TooLarge> {
        self.budget.spend(1)?;
        let schema = match schema {
            Value::Bool(true) => {
                found.anything = true;
                return Ok(());
            }
            Value::Object(schema) => schema,
            _ => return Ok(()),
        };
        if found.all.iter().any(|branch| std::ptr::eq(branch.schema, schema)) {
            return Ok(());
        }
        if depth > DEEPEST || found.all.len() >= MOST_BRANCHES {
            return Err(TooLarge::Schema);
        }
        found.all.push(Branch { schema, mandatory });
        if let Some(reference) = schema.get("$ref") {
            match self.target(reference) {
                Some(target) => self.collect(target, mandatory, depth + 1, found)?,
                None => found.unresolved = true,
            }
        }
        for part in list(schema, "allOf") {
            self.collect(part, mandatory, depth + 1, found)?;
        }
        for part in list(schema, "anyOf").iter().chain(list(schema, "oneOf")) {
            self.collect(part, false, depth + 1, found)?;
        }
        for part in ["if", "then", "else"].iter().filter_map(|key| schema.get(*key)) {
            self.collect(part, false, depth + 1, found)?;
        }
        if let Some(Value::Object(parts)) = schema.get("dependentSchemas") {
            for part in parts.values() {
                self.collect(part, false, depth + 1, found)?;
            }
        }
        Ok(())
    }

    /// Where a `$ref` within the schema leads.
    pub fn target(&self, reference: &Value) -> Option<&'a Value> {
        let pointer = reference.as_str()?.strip_prefix('#')?;
        if pointer.is_empty() {
            return Some(self.root);
        }
        self.root.pointer(pointer)
    }
}

impl<'a> Branches<'a> {
    /// The schemas of the member `name`: declared, matched by a pattern, or else whatever additional ones must be.
    /// None when nothing declares or admits it.
    pub fn member(&self, name: &str) -> Option<Vec<&'a Value>> {
        let mut schemas = Vec::new();
        for branch in &self.all {
            schemas.extend(object(branch.schema, "properties").and_then(|it| it.get(name)));
            let patterns = object(branch.schema, "patternProperties").into_iter().flatten();
            schemas
                .extend(patterns.filter(|(pattern, _)| NamePattern::matches(pattern, name)).map(|it| it.1));
        }
        (!schemas.is_empty()).then_some(schemas)
    }

    /// How many steps looking for one member takes.
    pub fn cost(&self) -> usize {
        let patterns = |branch: &Branch<'_>| object(branch.schema, "patternProperties").map_or(0, Map::len);
        self.all.iter().map(|branch| 1 + patterns(branch)).sum()
    }

    /// Is the name itself laid down, and not only admitted by a pattern?
    pub fn lists(&self, name: &str) -> bool {
        let lists = |branch: &Branch<'_>| {
            object(branch.schema, "properties").is_some_and(|properties| properties.contains_key(name))
        };
        self.all.iter().any(lists)
    }

    /// What members that nothing declares must be. None when there can be none.
    ///
    /// A missing `additionalProperties` counts as `false` where members are listed, and always at the top.
    pub fn additional(&self, level: Level) -> Option<Vec<&'a Value>> {
        let keys = ["additionalProperties", "unevaluatedProperties"];
        let said = |branch: &Branch<'a>| keys.map(|key| branch.schema.get(key));
        let closed = |value: &Option<&Value>| matches!(value, Some(Value::Bool(false)));
        if self.all.iter().any(|branch| branch.mandatory && said(branch).iter().any(closed)) {
            return None;
        }
        let open = |value: &&Value| matches!(value, Value::Bool(true) | Value::Object(_));
        let schemas: Vec<_> = self.all.iter().flat_map(said).flatten().filter(open).collect();
        if !schemas.is_empty() {
            return Some(schemas);
        }
        let free = match level {
            Level::Top => false,
            Level::Below => self.anything || !self.declares() && !self.unresolved,
        };
        free.then(Vec::new)
    }

    fn declares(&self) -> bool {
        let lists = |branch: &Branch<'_>, key| object(branch.schema, key).is_some_and(|it| !it.is_empty());
        self.all.iter().any(|branch| lists(branch, "properties") || lists(branch, "patternProperties"))
    }

    /// What each element of an array must be.
    pub fn elements(&self) -> Elements<'_, 'a> {
        let of_its_own = |branch: &Branch<'a>| {
            list(branch.schema, "prefixItems").len().max(list(branch.schema, "items").len())
        };
        let own = self.all.iter().map(of_its_own).max().unwrap_or_default();
        Elements { branches: self, own, rest: self.element(usize::MAX) }
    }

    fn element(&self, index: usize) -> Vec<&'a Value> {
        let mut schemas = Vec::new();
        for Branch { schema, .. } in &self.all {
            let first = list(schema, "prefixItems");
            match first.get(index) {
                Some(one) => schemas.push(one),
                None => match schema.get("items") {
                    // Before 2020-12 a list here was what `prefixItems` is now.
                    Some(Value::Array(items)) => schemas.extend(items.get(index)),
                    Some(items) => schemas.push(items),
                    None => {}
                },
            }
        }
        schemas
    }

    /// The names that are declared, each once.
    pub fn names(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for branch in &self.all {
            for name in object(branch.schema, "properties").into_iter().flat_map(Map::keys) {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
        names
    }

    pub fn formats(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.all.iter().filter_map(|branch| branch.schema.get("format").and_then(Value::as_str))
    }
}

/// The first elements may each have schemas of their own; those of the rest are found once for all.
pub(super) struct Elements<'b, 'a> {
    branches: &'b Branches<'a>,
    own: usize,
    rest: Vec<&'a Value>,
}

impl<'a> Elements<'_, 'a> {
    pub fn at(&self, index: usize, budget: &Budget) -> Result<Cow<'_, [&'a Value]>, TooLarge> {
        if index >= self.own {
            budget.spend(1)?;
            return Ok(Cow::Borrowed(&self.rest));
        }
        budget.spend(self.branches.all.len())?;
        Ok(Cow::Owned(self.branches.element(index)))
    }
}

/// The arguments themselves, or an object among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Top,
    Below,
}

pub(super) fn list<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn object<'a>(schema: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    schema.get(key).and_then(Value::as_object)
}
