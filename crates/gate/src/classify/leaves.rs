//! Every text among the arguments, keys of objects included, with what its name and schema say it may be.

use serde_json::{Map, Value};

use super::{
    git::escaped,
    schema::{Level, Schema, TooLarge},
    words::{Roles, words},
};

const MOST: usize = 20_000;

pub(super) struct Leaf<'a> {
    /// A JSON pointer.
    pub argument: String,
    pub text: &'a str,
    pub roles: Roles,
    /// The words of the name that it goes by.
    pub name: Vec<String>,
    pub top: bool,
}

pub(super) fn leaves<'a>(
    schema: Schema<'_>,
    arguments: &'a Map<String, Value>,
) -> Result<Vec<Leaf<'a>>, TooLarge> {
    let mut walk = Walk { schema, leaves: Vec::new(), left: MOST };
    let nobody = Owner { argument: String::new(), name: Vec::new(), roles: Roles::default() };
    let described = [schema.root];
    walk.object(&nobody, arguments, &described, Level::Top)?;
    Ok(walk.leaves)
}

struct Walk<'s, 'a> {
    schema: Schema<'s>,
    leaves: Vec<Leaf<'a>>,
    left: usize,
}

/// What a value hangs on. Elements of a list go by its name, and members whose own name says nothing by that of their
/// object.
struct Owner {
    argument: String,
    name: Vec<String>,
    roles: Roles,
}

impl<'s, 'a> Walk<'s, 'a> {
    fn object(
        &mut self,
        owner: &Owner,
        object: &'a Map<String, Value>,
        described: &[&'s Value],
        level: Level,
    ) -> Result<(), TooLarge> {
        let branches = self.schema.branches(described)?;
        for (name, value) in object {
            self.schema.budget.spend(branches.cost())?;
            let declared = branches.member(name);
            let argument = format!("{}/{}", owner.argument, escaped(name));
            if !branches.lists(name) {
                // A name that nobody laid down, though a pattern may admit it, is data: `{"files": {"/etc/passwd": "…"}}`.
                self.leaf(argument.clone(), name, owner.roles, owner.name.clone(), false)?;
            }
            let mut member = Owner { argument, name: words(name), roles: owner.roles };
            match Roles::of_name(&member.name) {
                Some(roles) => member.roles = roles,
                None if level == Level::Below => {
                    member.name.extend(owner.name.iter().cloned());
                }
                None => {}
            }
            let described = declared.or_else(|| branches.additional(level)).unwrap_or_default();
            self.value(member, value, &described, level == Level::Top)?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        mut owner: Owner,
        value: &'a Value,
        described: &[&'s Value],
        top: bool,
    ) -> Result<(), TooLarge> {
        match value {
            Value::String(text) => {
                for format in self.schema.branches(described)?.formats() {
                    owner.roles.add_format(format);
                }
                self.leaf(owner.argument, text, owner.roles, owner.name, top)
            }
            Value::Array(elements) => {
                let branches = self.schema.branches(described)?;
                let described = branches.elements();
                for (index, element) in elements.iter().enumerate() {
                    let argument = format!("{}/{index}", owner.argument);
                    let element_owner = Owner { argument, name: owner.name.clone(), roles: owner.roles };
                    let described = described.at(index, self.schema.budget)?;
                    self.value(element_owner, element, &described, false)?;
                }
                Ok(())
            }
            Value::Object(object) => self.object(&owner, object, described, Level::Below),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn leaf(
        &mut self,
        argument: String,
        text: &'a str,
        roles: Roles,
        name: Vec<String>,
        top: bool,
    ) -> Result<(), TooLarge> {
        self.left = self.left.checked_sub(1).ok_or(TooLarge::Call)?;
        self.leaves.push(Leaf { argument, text, roles, name, top });
        Ok(())
    }
}
