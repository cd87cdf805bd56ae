//! What others can read about this session while it lasts: `session.json`.

use serde_json::{Value, json};

use super::{Proxy, slot::State};
use crate::blocked::Evidence;

impl Proxy {
    pub(super) fn write_status(&self) {
        let servers: Vec<Value> = self
            .servers
            .iter()
            .map(|slot| {
                let mut server = json!({
                    "name": slot.name, "state": slot.state.word(), "tools": slot.catalog.len(),
                });
                let fields = server.as_object_mut();
                if let (Some(fields), State::Failed(why)) = (fields, &slot.state) {
                    fields.insert("error".to_owned(), json!(why));
                }
                if let (Some(fields), Some(process)) = (server.as_object_mut(), &slot.process) {
                    let facts = process.facts();
                    fields.insert("sandboxed".to_owned(), json!(facts.evidence != Evidence::None));
                    fields.insert("sandboxId".to_owned(), json!(facts.sandbox_id));
                    fields.insert("network".to_owned(), json!(facts.network));
                }
                if let (Some(fields), false) = (server.as_object_mut(), slot.change.is_empty()) {
                    fields.insert("toolsChanged".to_owned(), json!(slot.change));
                }
                server
            })
            .collect();
        self.session.write_status(&self.house.config_path, servers);
    }
}
