//! Lists that all servers have a part in: tools from what we know, the others asked for and put together. Also
//! which server a resource or a prompt belongs to.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::json;

use super::{Proxy, Where, slot::Purpose};
use crate::{
    generation::Generation,
    message::{self, Message, Outcome},
    names::{Claim, ServerIndex},
    reply::{self, Code},
};

/// An answer that is being put together.
#[derive(Debug)]
pub struct Gather {
    pub client_id: Bytes,
    method: &'static str,
    /// The member of the result that is the list; empty when there is none.
    list: &'static str,
    waiting: BTreeSet<ServerIndex>,
    /// In the order of the servers, not of their answers.
    items: Vec<(ServerIndex, Vec<String>)>,
    error: Option<String>,
    beside: String,
}

/// So many templates are known.
const MOST_TEMPLATES: usize = 5000;
/// So many items of one server are taken.
const MOST_ITEMS: usize = 20_000;

impl Proxy {
    pub(super) fn answer_tools(&mut self, id: &Bytes) {
        let tools = self.tools_text();
        // What one server says beside its list is kept; of several it could not be told apart.
        let beside = match self.servers.as_slice() {
            [only] => only.beside.clone(),
            _ => String::new(),
        };
        let more = match self.client.as_ref().map(|client| client.generation) {
            Some(Generation::Stateless) => {
                ",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\""
            }
            _ => "",
        };
        self.answer_raw(id, &format!("{{\"tools\":{tools}{more}{beside}}}"));
    }

    /// Every tool of every server, as its server describes it but for its name.
    fn tools_text(&self) -> String {
        let mut text = String::from("[");
        for slot in self.servers.iter().filter(|slot| slot.is_ready()) {
            for tool in &slot.listed {
                let Some(shown) = self.names.shown(slot.index, &tool.name) else { continue };
                if text.len() > 1 {
                    text.push(',');
                }
                text.push_str(&renamed(&tool.raw, "name", shown));
            }
        }
        text.push(']');
        text
    }

    /// Names for what is new.
    pub(super) fn name_tools(&mut self) {
        let claims: Vec<Claim<'_>> = self
            .servers
            .iter()
            .filter(|slot| slot.is_ready())
            .map(|slot| Claim {
                server: slot.index,
                server_name: &slot.name,
                own_names: slot.listed.iter().map(|tool| tool.name.as_str()).collect(),
            })
            .collect();
        self.names.give(&claims);
    }

    /// Asks every server that has such a list for it.
    pub(super) fn gather(&mut self, id: &Bytes, method: &'static str, list: &'static str) {
        let capability = method.split('/').next().unwrap_or(method);
        self.gather_from(id, method, list, capability, "{}");
    }

    pub(super) fn gather_level(&mut self, message: &Message, id: &Bytes) {
        let params = message.params().to_owned();
        self.gather_from(id, "logging/setLevel", "", "logging", &params);
    }

    fn gather_from(
        &mut self,
        id: &Bytes,
        method: &'static str,
        list: &'static str,
        capability: &str,
        params: &str,
    ) {
        let key = self.new_key();
        let waiting: BTreeSet<ServerIndex> =
            self.servers.iter().filter(|slot| slot.can(capability)).map(|slot| slot.index).collect();
        if waiting.is_empty() && list.is_empty() {
            self.refuse(id, Code::MethodNotFound, &format!("Method not found: {method}"));
            return;
        }
        let gather = Gather {
            client_id: id.clone(),
            method,
            list,
            waiting: waiting.clone(),
            items: Vec::new(),
            error: None,
            beside: String::new(),
        };
        self.requests.insert(id.clone(), Where::Gather(key));
        self.gathers.insert(key, gather);
        for server in waiting {
            self.ask_part(server, method, params, key);
        }
        self.finish_gather(key);
    }

    fn ask_part(&mut self, server: ServerIndex, method: &str, params: &str, key: u64) {
        let meta = self.client.as_ref().map(crate::generation::Client::meta).unwrap_or_default();
        let Some(slot) = self.servers.get_mut(server.0) else { return };
        if slot.generation == Generation::Stateless {
            let request = reply::request(0, method, params);
            if let Ok(request) = Message::parse(request) {
                let bytes = super::bridge::request(&request, Generation::Stateless, &meta);
                if let Ok(request) = Message::parse(bytes) {
                    slot.ask(method, request.params(), Purpose::Gather(key));
                    return;
                }
            }
        }
        slot.ask(method, params, Purpose::Gather(key));
    }

    pub(super) fn on_gathered(&mut self, key: u64, server: ServerIndex, answer: &Message, outcome: Outcome) {
        let Some(gather) = self.gathers.get_mut(&key) else { return };
        if outcome == Outcome::Error {
            gather.error = Some(answer.outcome().to_owned());
            gather.waiting.remove(&server);
            self.finish_gather(key);
            return;
        }
        let (list, method) = (gather.list, gather.method);
        gather.beside = beside(answer.outcome(), list);
        let items: Vec<String> = message::member(answer.outcome(), list)
            .map(message::elements)
            .unwrap_or_default()
            .into_iter()
            .map(str::to_owned)
            .collect();
        // A page without anything is the last, whatever it says.
        let fresh = !items.is_empty();
        let known = match gather.items.iter_mut().find(|(owner, _)| *owner == server) {
            Some((_, known)) => {
                known.extend(items);
                known.len()
            }
            None => {
                let count = items.len();
                gather.items.push((server, items));
                count
            }
        };
        let next = message::member(answer.outcome(), "nextCursor").filter(|cursor| *cursor != "null");
        match next {
            Some(cursor) if fresh && known < MOST_ITEMS && !list.is_empty() => {
                let params = format!("{{\"cursor\":{cursor}}}");
                self.ask_part(server, method, &params, key);
            }
            _ => {
                gather.waiting.remove(&server);
                self.finish_gather(key);
            }
        }
    }

    pub(super) fn gathered_nothing(&mut self, key: u64, server: ServerIndex) {
        if let Some(gather) = self.gathers.get_mut(&key) {
            gather.waiting.remove(&server);
            self.finish_gather(key);
        }
    }

    /// Answers when nobody is waited for any more.
    fn finish_gather(&mut self, key: u64) {
        if !self.gathers.get(&key).is_some_and(|gather| gather.waiting.is_empty()) {
            return;
        }
        let Some(mut gather) = self.gathers.remove(&key) else { return };
        gather.items.sort_by_key(|(server, _)| *server);
        self.learn_owners(&gather);
        if self.requests.get(&gather.client_id) != Some(&Where::Gather(key)) {
            return;
        }
        let id = gather.client_id.clone();
        let stateless = self.client.as_ref().is_some_and(|client| client.generation == Generation::Stateless);
        if gather.items.is_empty()
            && let Some(error) = &gather.error
        {
            let bytes =
                format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, String::from_utf8_lossy(&id));
            self.requests.remove(&id);
            self.tell(vec![Bytes::from(bytes)], crate::link::About::Response(id));
            return;
        }
        if gather.list.is_empty() {
            self.answer(&id, &json!({}));
            return;
        }
        let mut texts = Vec::new();
        for (server, items) in &gather.items {
            for item in items {
                if gather.list == "prompts" {
                    let own = message::string(item, "name").unwrap_or_default();
                    let shown = self.prompts.shown(*server, &own).unwrap_or(&own).to_owned();
                    texts.push(renamed(item, "name", &shown));
                } else {
                    texts.push(item.clone());
                }
            }
        }
        let more = if stateless {
            ",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\""
        } else {
            ""
        };
        let beside = if self.servers.len() == 1 { gather.beside.as_str() } else { "" };
        self.answer_raw(&id, &format!("{{\"{}\":[{}]{more}{beside}}}", gather.list, texts.join(",")));
    }

    fn learn_owners(&mut self, gather: &Gather) {
        match gather.list {
            "resources" => {
                for (server, items) in &gather.items {
                    for uri in items.iter().filter_map(|item| message::string(item, "uri")) {
                        self.resources.entry(uri).or_insert(*server);
                    }
                }
            }
            "resourceTemplates" => {
                for (server, items) in &gather.items {
                    for template in items.iter().filter_map(|item| message::string(item, "uriTemplate")) {
                        let fixed = template.split('{').next().unwrap_or_default().to_owned();
                        self.templates.insert((fixed, *server));
                        if self.templates.len() >= MOST_TEMPLATES {
                            return;
                        }
                    }
                }
            }
            "prompts" => {
                let names: Vec<(ServerIndex, Vec<String>)> = gather
                    .items
                    .iter()
                    .map(|(server, items)| {
                        (*server, items.iter().filter_map(|item| message::string(item, "name")).collect())
                    })
                    .collect();
                let claims: Vec<Claim<'_>> = names
                    .iter()
                    .filter_map(|(server, own)| {
                        let slot = self.servers.get(server.0)?;
                        let own_names = own.iter().map(String::as_str).collect();
                        Some(Claim { server: *server, server_name: &slot.name, own_names })
                    })
                    .collect();
                self.prompts.give(&claims);
            }
            _ => {}
        }
    }

    /// The server that listed it, else the one whose template fits best, else the only one that has resources.
    pub(super) fn owner_of_resource(&self, uri: &str) -> Option<ServerIndex> {
        let listed = self.resources.get(uri).copied();
        let fitting = || {
            self.templates
                .iter()
                .filter(|(fixed, _)| !fixed.is_empty() && uri.starts_with(fixed.as_str()))
                .max_by_key(|(fixed, _)| fixed.len())
                .map(|(_, server)| *server)
        };
        listed
            .or_else(fitting)
            .filter(|server| self.servers.get(server.0).is_some_and(super::slot::Slot::is_ready))
            .or_else(|| self.only_server("resources"))
    }
}

/// The members of a result that are neither the list nor about it, each with a comma in front.
pub fn beside(result: &str, list: &str) -> String {
    const ABOUT: [&str; 4] = ["nextCursor", "resultType", "ttlMs", "cacheScope"];
    message::members(result)
        .unwrap_or_default()
        .into_iter()
        .filter(|(key, _)| key != list && !ABOUT.contains(&key.as_str()))
        .map(|(key, raw)| format!(",{}:{raw}", json!(key)))
        .collect()
}

/// A raw object with another string in one of its members.
pub fn renamed(raw: &str, member: &str, new: &str) -> String {
    let Some(old) = message::member(raw, member) else { return raw.to_owned() };
    let start = (old.as_ptr() as usize).wrapping_sub(raw.as_ptr() as usize);
    match (raw.get(..start), raw.get(start + old.len()..)) {
        (Some(before), Some(after)) => format!("{before}{}{after}", json!(new)),
        _ => raw.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_tool_changes() {
        let raw = r#"{ "x": {"name":"n"}, "name" : "n", "inputSchema":{"maximum":12345678901234567890} }"#;
        assert_eq!(
            renamed(raw, "name", "s__n"),
            r#"{ "x": {"name":"n"}, "name" : "s__n", "inputSchema":{"maximum":12345678901234567890} }"#
        );
    }
}
