//! What is prepared once so that a decision is quick: per server its actions, and the entities that policies are
//! evaluated with.

use std::{
    collections::{HashMap, HashSet},
    sync::OnceLock,
};

use cedar_policy::{Entities, Entity, EntityUid, PolicySet, RestrictedExpression};

use crate::{
    call::Hints,
    judge::{
        action,
        catalog::Catalog,
        clause::Clause,
        context::{Circumstances, Containment, Network},
        schema::Generated,
        scope::Place,
        shape::Members,
    },
};

/// All that is prepared for one server.
pub struct Desk {
    pub name: String,
    pub group: String,
    pub resource: EntityUid,
    pub tools: HashMap<String, Counter>,
    pub read: Counter,
    pub prompt: Counter,
    /// By containment and network, built when first needed.
    entities: [OnceLock<Option<Entities>>; 4],
}

/// All that is prepared for one action.
pub struct Counter {
    pub id: String,
    pub action: EntityUid,
    pub arguments: Members,
    pub hints: Hints,
    /// Built when first needed: of many tools few are used.
    sets: OnceLock<Option<Sets>>,
}

/// The policies that can be about one action. Two sets, because Cedar names the satisfied permits only where no
/// forbid is satisfied.
pub struct Sets {
    pub forbids: PolicySet,
    pub permits: PolicySet,
}

impl Counter {
    /// Of these policies those whose head matches. The others could neither be satisfied nor fail.
    pub fn sets<'a>(&self, place: Place<'_>, in_force: impl Iterator<Item = &'a Clause>) -> Option<&Sets> {
        let build = || {
            let (permits, forbids): (Vec<&Clause>, Vec<&Clause>) = in_force
                .filter(|clause| clause.scope.matches(place))
                .partition(|clause| clause.means.is_permit());
            let set = |clauses: Vec<&Clause>| {
                PolicySet::from_policies(clauses.into_iter().map(|clause| clause.policy.clone())).ok()
            };
            Some(Sets { forbids: set(forbids)?, permits: set(permits)? })
        };
        self.sets.get_or_init(build).as_ref()
    }
}

pub fn desks(catalog: &Catalog, generated: &Generated, types: &action::Types) -> HashMap<String, Desk> {
    let counter = |id: String, arguments: Members, hints: Hints| Counter {
        action: types.action(&id),
        id,
        arguments,
        hints,
        sets: OnceLock::new(),
    };
    let mut desks = HashMap::new();
    for (name, listing) in catalog.running() {
        let mut tools = HashMap::new();
        for (tool, offer) in &listing.tools {
            let id = action::tool(name, tool);
            let arguments = generated.arguments(&id, offer).clone();
            tools.insert(tool.clone(), counter(id, arguments, offer.hints));
        }
        let desk = Desk {
            name: name.to_owned(),
            group: action::server(name),
            resource: types.server(name),
            tools,
            read: counter(action::read(name), Members::default(), Hints::default()),
            prompt: counter(action::prompt(name), Members::default(), Hints::default()),
            entities: Default::default(),
        };
        desks.insert(name.to_owned(), desk);
    }
    desks
}

impl Desk {
    /// The server, its actions and their groups, and the agent. Other servers are not among them: how these run
    /// is not known here, and a policy that asks for it fails, which denies.
    pub fn entities(&self, types: &action::Types, circumstances: &Circumstances) -> Option<&Entities> {
        let sandboxed = circumstances.containment == Containment::Sandboxed;
        // Nothing holds the network of a bare server, whatever was configured.
        let network = circumstances.network == Network::Open || !sandboxed;
        let at = usize::from(sandboxed) * 2 + usize::from(network);
        self.entities.get(at)?.get_or_init(|| self.build_entities(types, sandboxed, network)).as_ref()
    }

    fn build_entities(&self, types: &action::Types, sandboxed: bool, network: bool) -> Option<Entities> {
        let group = types.action(&self.group);
        let kinds = [action::CALL, action::READ, action::PROMPT].map(|kind| types.action(kind));
        let [call, read, prompt] = kinds.clone();
        let with = |uid: &EntityUid, parents: &[&EntityUid]| {
            Entity::new_no_attrs(uid.clone(), parents.iter().map(|parent| (*parent).clone()).collect())
        };
        let mut all: Vec<Entity> = kinds.iter().map(|kind| with(kind, &[])).collect();
        all.push(with(&group, &[]));
        all.push(with(&types.client(), &[]));
        all.push(with(&self.read.action, &[&read]));
        all.push(with(&self.prompt.action, &[&prompt]));
        all.extend(self.tools.values().map(|counter| with(&counter.action, &[&call, &group])));
        let attributes = [("sandboxed", sandboxed), ("network", network)];
        let attributes =
            attributes.map(|(name, truth)| (name.to_owned(), RestrictedExpression::new_bool(truth)));
        all.push(Entity::new(self.resource.clone(), HashMap::from(attributes), HashSet::new()).ok()?);
        Entities::from_entities(all, None).ok()
    }
}
