//! The names a stateless request goes by while it is at work. All stateless clients share one proxy, and every
//! client counts its requests from 1: so a request gets an id that is never used again, its progress token
//! likewise, and what comes back gets the client's own. A late message about a request that is over can so
//! never reach another client.

use std::ops::Range;

use bytes::Bytes;

use super::splice;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LISTEN: &str = "subscriptions/listen";

#[derive(Debug)]
pub struct Alias {
    /// The id and the progress token on the proxy's side, raw.
    ours: Bytes,
    /// The client's id, raw.
    theirs: Bytes,
    /// The client's progress token, raw.
    token: Option<Bytes>,
    /// Whether messages name this request as a subscription.
    listens: bool,
}

impl Alias {
    /// The request under another name, and what is needed to name it back.
    pub fn assume(request: Bytes, id: Range<usize>, method: &str, number: u64) -> (Bytes, Alias) {
        let ours = Bytes::from(number.to_string());
        let theirs = request.slice(id.clone());
        let mut pieces = vec![request];
        let mut token = None;
        let named = splice::find(&pieces, &["params", "_meta", "progressToken"]);
        let mut places = vec![id];
        if let Some(range) = named {
            token = pieces.first().map(|request| request.slice(range.clone()));
            places.push(range);
        }
        // From the back, so that a replacement does not move the other place.
        places.sort_by_key(|range| std::cmp::Reverse(range.start));
        for range in places {
            pieces = splice::replace(pieces, range, ours.clone());
        }
        let alias = Alias { ours, theirs, token, listens: method == LISTEN };
        (Bytes::from(pieces.concat()), alias)
    }

    pub fn ours(&self) -> &Bytes {
        &self.ours
    }

    pub fn theirs(&self) -> &Bytes {
        &self.theirs
    }

    /// The response with the client's id; `None` when it has no id that can be replaced.
    pub fn restore_response(&self, mut pieces: Vec<Bytes>) -> Option<Vec<Bytes>> {
        if self.listens {
            pieces = self.swap(pieces, &["result", "_meta", SUBSCRIPTION], &self.theirs);
        }
        let range = splice::find(&pieces, &["id"])?;
        Some(splice::replace(pieces, range, self.theirs.clone()))
    }

    /// A message that came during the request, with the client's names.
    pub fn restore_related(&self, mut pieces: Vec<Bytes>) -> Vec<Bytes> {
        if let Some(token) = &self.token {
            pieces = self.swap(pieces, &["params", "progressToken"], token);
        }
        if self.listens {
            pieces = self.swap(pieces, &["params", "_meta", SUBSCRIPTION], &self.theirs);
        }
        self.swap(pieces, &["params", "requestId"], &self.theirs)
    }

    /// Only where our own name stands: anything else is not ours to change.
    fn swap(&self, pieces: Vec<Bytes>, path: &[&str], with: &Bytes) -> Vec<Bytes> {
        match splice::find(&pieces, path) {
            Some(range) if splice::holds(&pieces, range.clone(), &self.ours) => {
                splice::replace(pieces, range, with.clone())
            }
            _ => pieces,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assume(text: &'static str, id: &str, method: &str) -> (String, Alias) {
        let start = text.find(id).unwrap();
        let (bytes, alias) =
            Alias::assume(Bytes::from_static(text.as_bytes()), start..start + id.len(), method, 900);
        (String::from_utf8(bytes.to_vec()).unwrap(), alias)
    }

    fn text(pieces: Vec<Bytes>) -> String {
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[test]
    fn id_and_progress_token_are_replaced_and_come_back() {
        let (sent, alias) = assume(
            r#"{"jsonrpc":"2.0","id":"c-1","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"c-1t","a":1}}}"#,
            r#""c-1""#,
            "tools/call",
        );
        assert_eq!(
            sent,
            r#"{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":900,"a":1}}}"#
        );
        let progress = Bytes::from_static(
            br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":900,"progress":1}}"#,
        );
        assert!(text(alias.restore_related(vec![progress])).contains(r#""progressToken":"c-1t""#));
        let response =
            vec![Bytes::from_static(b"{\"result\":{\"id\":900},\"id\":9"), Bytes::from_static(b"00}")];
        assert_eq!(text(alias.restore_response(response).unwrap()), r#"{"result":{"id":900},"id":"c-1"}"#);
    }

    #[test]
    fn a_token_that_stands_before_the_id_is_replaced_too() {
        let (sent, _) = assume(
            r#"{"params":{"_meta":{"progressToken":1}},"method":"tools/list","jsonrpc":"2.0","id":77}"#,
            "77",
            "tools/list",
        );
        assert_eq!(
            sent,
            r#"{"params":{"_meta":{"progressToken":900}},"method":"tools/list","jsonrpc":"2.0","id":900}"#
        );
    }

    #[test]
    fn a_subscription_is_named_by_the_clients_id() {
        let (_, alias) = assume(r#"{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen"}"#, "5", LISTEN);
        let event = Bytes::from_static(
            br#"{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":900}}}"#,
        );
        assert!(text(alias.restore_related(vec![event])).contains(r#"subscriptionId":5}"#));
        let end = Bytes::from_static(
            br#"{"id":900,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":900}}}"#,
        );
        assert_eq!(
            text(alias.restore_response(vec![end]).unwrap()),
            r#"{"id":5,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}"#
        );
    }

    #[test]
    fn a_response_without_an_id_is_not_passed_on() {
        let (_, alias) = assume(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#, "5", "ping");
        assert!(alias.restore_response(vec![Bytes::from_static(b"{\"result\":{}}")]).is_none());
    }
}
