//! What every request must pass before anything else of it is looked at: it means this server, it does not come
//! from a page of the web, and it shows the token.

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AUTHORIZATION, CONNECTION, HOST, HeaderValue,
        ORIGIN, VARY, WWW_AUTHENTICATE,
    },
    http::request::Parts,
};

use super::{
    answer::{Refusal, TRANSPORT},
    head,
    origin::{self, Origin},
    token::Token,
};

#[derive(Debug)]
pub struct Guard {
    pub port: u16,
    pub allowed_origins: Vec<Origin>,
    pub token: Token,
}

/// What a request that is let in is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    Request,
    /// A browser's question whether the real request may be made. It cannot show a token.
    Preflight,
}

impl Guard {
    pub fn admit(&self, request: &Parts) -> Result<Admitted, Refusal> {
        let decided = self.decide(request);
        // Nobody who was refused keeps one of the connections.
        decided.map_err(|refusal| refusal.with_header(CONNECTION, "close"))
    }

    fn decide(&self, request: &Parts) -> Result<Admitted, Refusal> {
        let host = head::single(&request.headers, &HOST)?
            .ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, TRANSPORT, "the header Host is missing"))?;
        let target = request.uri.authority().map_or(host, |authority| authority.as_str());
        if ![host, target].iter().all(|authority| origin::is_this_server(authority, self.port)) {
            let message =
                "the header Host must be localhost, 127.0.0.1 or [::1] with the port of this server";
            return Err(Refusal::new(StatusCode::FORBIDDEN, TRANSPORT, message));
        }
        let from_page = head::single(&request.headers, &ORIGIN)?;
        if from_page.is_some_and(|text| !self.allows(text)) {
            let message = "requests from this origin are not allowed";
            return Err(Refusal::new(StatusCode::FORBIDDEN, TRANSPORT, message));
        }
        if request.method == Method::OPTIONS && from_page.is_some() {
            return Ok(Admitted::Preflight);
        }
        match shown_token(&request.headers) {
            Some(shown) if self.token.is(shown) => Ok(Admitted::Request),
            Some(_) => Err(unauthorized("Bearer realm=\"lazaret\", error=\"invalid_token\"")),
            None => Err(unauthorized("Bearer realm=\"lazaret\"")),
        }
    }

    fn allows(&self, origin: &str) -> bool {
        origin
            .parse::<Origin>()
            .is_ok_and(|origin| origin.is_loopback() || self.allowed_origins.contains(&origin))
    }

    /// Lets a browser give the answer to the page, when the page is allowed.
    pub fn share(&self, request: &HeaderMap, admitted: Option<Admitted>, answer: &mut HeaderMap) {
        let Some(origin) = request.get(ORIGIN) else { return };
        answer.append(VARY, HeaderValue::from_static("Origin"));
        if !origin.to_str().is_ok_and(|origin| self.allows(origin)) {
            return;
        }
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Mcp-Session-Id"));
        if admitted == Some(Admitted::Preflight) {
            answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, DELETE"));
            answer.insert(
                ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static(
                    "Authorization, Content-Type, Accept, Mcp-Session-Id, Mcp-Protocol-Version, Last-Event-Id, Mcp-Method, Mcp-Name",
                ),
            );
            answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
    }
}

/// Of exactly one header `Authorization: Bearer TOKEN`.
fn shown_token(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.as_bytes();
    let (scheme, rest) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| rest.trim_ascii())
}

fn unauthorized(challenge: &'static str) -> Refusal {
    let message = "a valid token is needed (header Authorization: Bearer TOKEN)";
    Refusal::new(StatusCode::UNAUTHORIZED, TRANSPORT, message).with_header(WWW_AUTHENTICATE, challenge)
}
