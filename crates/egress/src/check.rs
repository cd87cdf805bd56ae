//! Copies between the two ends of a connection to a name, after a look at what the client says first: the server
//! name of TLS and the Host of every plain HTTP request must be the name that was allowed. Otherwise one allowed
//! name would open every other one that is served at the same address.
//!
//! Other protocols pass as they are.

use std::{
    cell::Cell,
    io,
    time::{Duration, Instant},
};

use lazaret_policy::{
    host::{Host, Name},
    network::Denial,
};
use tokio::{
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::Notify,
};

use crate::{
    carry::{Broken, mismatch},
    hello::{self, Hello},
    relay::{self, Busy, Traffic, count, finish, pump, read_some},
    request::{Likeness, Protocol, Status, Step, Tracker, Upgrade, looks_like_http, rewrite, status_of},
    response,
};

/// Whoever begins to say whom it wants must come to an end with it.
const OPENING: Duration = Duration::from_secs(10);
/// The most that is held back until it is clear what it is.
const MOST_HELD: usize = 64 << 10;

/// What a client must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    pub name: Name,
    pub port: u16,
}

/// What the first bytes are.
enum Opening {
    More,
    Pass,
    Http,
    Deny(String),
}

/// Copies both ways until both have finished.
pub async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    expectation: Option<&Expectation>,
    traffic: &Traffic,
    early: Vec<u8>,
) -> Result<(), Broken> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answers = Answers::default();
    let _busy = Busy::start();
    let ended = {
        let out = outward(&mut from_client, &mut to_server, expectation, traffic, early, &answers);
        let back = backward(&mut from_server, &mut to_client, traffic, &answers);
        tokio::try_join!(out, back).map(drop)
    };
    if let Err(Broken::Denied(denial)) = &ended
        && answers.client_speaks_http.get()
    {
        tell_client(&mut to_client, denial).await;
    }
    ended
}

async fn tell_client(to_client: &mut WriteHalf<'_>, denial: &Denial) {
    let (words, uncounted) = (response::refusal(denial), Cell::new(0));
    let told = relay::write_all(to_client, &words, &uncounted);
    if matches!(tokio::time::timeout(Duration::from_secs(1), told).await, Ok(Ok(()))) {
        let _ = finish(to_client).await;
    }
}

async fn outward(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    expectation: Option<&Expectation>,
    traffic: &Traffic,
    mut held: Vec<u8>,
    answers: &Answers,
) -> Result<(), Broken> {
    let Some(expectation) = expectation else {
        relay::write_all(to, &held, &traffic.sent).await?;
        return Ok(pump(from, to, &traffic.sent).await?);
    };
    let mut until = None;
    loop {
        match opening(&held, expectation) {
            Opening::More => {}
            Opening::Pass => {
                relay::write_all(to, &held, &traffic.sent).await?;
                drop(held);
                return Ok(pump(from, to, &traffic.sent).await?);
            }
            Opening::Http => {
                answers.client_speaks_http.set(true);
                return requests(from, to, expectation, traffic, held, answers, until).await;
            }
            Opening::Deny(detail) => return Err(mismatch(expectation, detail)),
        }
        if held.len() >= MOST_HELD {
            return Err(mismatch(expectation, "too much was said without saying for whom".to_owned()));
        }
        let more = read_some(from, |bytes| held.extend_from_slice(bytes));
        // Without a limit while nothing has been said: a server may speak first, for as long as it likes.
        let read = within(until, more, expectation).await?;
        until = until.or_else(|| Some((Instant::now() + OPENING).into()));
        if read.is_none() {
            if !held.is_empty() && !is_no_request(&held) {
                return Err(mismatch(expectation, "it ended before it was clear for whom it is".to_owned()));
            }
            relay::write_all(to, &held, &traffic.sent).await?;
            return Ok(finish(to).await?);
        }
    }
}

fn opening(bytes: &[u8], expectation: &Expectation) -> Opening {
    match hello::server_name(bytes) {
        Hello::Incomplete => Opening::More,
        Hello::Malformed => Opening::Deny("its TLS greeting cannot be read".to_owned()),
        Hello::ClientHello { server_name: Some(said), .. } => {
            if is_name(&said, expectation) {
                Opening::Pass
            } else {
                Opening::Deny(format!(
                    "the TLS server name is {said:?}, but the connection is to {}",
                    expectation.name
                ))
            }
        }
        // Clients leave it out for names without a dot.
        Hello::ClientHello { server_name: None, .. } if expectation.name.is_single_label() => Opening::Pass,
        Hello::ClientHello { server_name: None, .. } => {
            Opening::Deny(format!("it names no TLS server, but the connection is to {}", expectation.name))
        }
        Hello::NotTls => match looks_like_http(bytes) {
            Likeness::No => Opening::Pass,
            Likeness::Undecided => Opening::More,
            Likeness::Yes(Protocol::Http1) => Opening::Http,
            Likeness::Yes(Protocol::Http2) => {
                Opening::Deny("HTTP/2 without TLS cannot be checked for whom it is".to_owned())
            }
        },
    }
}

/// Reads until a moment, if there is one.
async fn within<T>(
    until: Option<tokio::time::Instant>,
    more: impl Future<Output = io::Result<T>>,
    expectation: &Expectation,
) -> Result<T, Broken> {
    let Some(until) = until else { return Ok(more.await?) };
    match tokio::time::timeout_at(until, more).await {
        Ok(read) => Ok(read?),
        Err(_) => Err(mismatch(expectation, format!("it did not say within {OPENING:?} for whom it is"))),
    }
}

/// All that a client says, and neither TLS nor HTTP even if a server takes the end for the end of a line.
fn is_no_request(bytes: &[u8]) -> bool {
    let line = [bytes, b"\n"].concat();
    matches!(hello::server_name(bytes), Hello::NotTls) && !matches!(looks_like_http(&line), Likeness::Yes(_))
}

fn is_name(said: &str, expectation: &Expectation) -> bool {
    matches!(Host::parse(said), Ok(Host::Name(name)) if name == expectation.name)
}

/// Every request of the connection, not only the first.
async fn requests(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    expectation: &Expectation,
    traffic: &Traffic,
    mut input: Vec<u8>,
    answers: &Answers,
    mut head_until: Option<tokio::time::Instant>,
) -> Result<(), Broken> {
    let mut tracker = Tracker::new();
    let mut first = true;
    loop {
        let mut rest = input.as_slice();
        while !rest.is_empty() {
            let step = tracker.feed(rest).map_err(|error| mismatch(expectation, error.to_string()))?;
            // A head that has begun must come to its end.
            head_until = match step {
                Step::Kept { .. } => head_until.or_else(|| Some((Instant::now() + OPENING).into())),
                _ => None,
            };
            let taken = match step {
                Step::Kept { taken } => taken,
                Step::Pass { taken } => {
                    let passed = rest.get(..taken).unwrap_or_default();
                    relay::write_all(to, passed, &traffic.sent).await?;
                    taken
                }
                Step::Head { taken, head } => {
                    if !is_name(&head.authority.host, expectation) {
                        let said = &head.authority.host;
                        let detail = format!(
                            "the HTTP request is for {said:?}, but the connection is to {}",
                            expectation.name
                        );
                        return Err(mismatch(expectation, detail));
                    }
                    if matches!(head.upgrade, Upgrade::Asked(_)) {
                        // Only there is what comes back surely the answer to it.
                        if !first {
                            let detail = "a change of protocol must be asked for by the first request";
                            return Err(mismatch(expectation, detail.to_owned()));
                        }
                        answers.ask();
                    }
                    first = false;
                    match head.upgrade {
                        // An offer that many clients make without need, and that could not be followed.
                        Upgrade::Http2 => relay::write_all(to, &rewrite(&head), &traffic.sent).await?,
                        _ => relay::write_all(to, head.bytes(), &traffic.sent).await?,
                    }
                    taken
                }
                Step::Wait => {
                    match answers.answered().await {
                        Answer::Upgraded => tracker.upgraded(),
                        Answer::NotUpgraded => tracker.not_upgraded(),
                    }
                    0
                }
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        relay::empty(&mut input);
        let more = read_some(from, |bytes| input.extend_from_slice(bytes));
        if within(head_until, more, expectation).await?.is_none() {
            return Ok(finish(to).await?);
        }
    }
}

/// What the server says to a request for another protocol.
#[derive(Debug, Default)]
struct Answers {
    client_speaks_http: Cell<bool>,
    asked: Cell<bool>,
    answer: Cell<Option<Answer>>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Upgraded,
    NotUpgraded,
}

impl Answers {
    fn ask(&self) {
        self.answer.set(None);
        self.asked.set(true);
    }

    fn decide(&self, answer: Answer) {
        self.asked.set(false);
        self.answer.set(Some(answer));
        self.changed.notify_one();
    }

    async fn answered(&self) -> Answer {
        loop {
            if let Some(answer) = self.answer.take() {
                return answer;
            }
            self.changed.notified().await;
        }
    }

    /// Looks at the beginning of a response; returns what of it is still to be looked at with what follows.
    fn look(&self, mut seen: Vec<u8>) -> Vec<u8> {
        loop {
            match status_of(&seen) {
                Status::Incomplete => return seen,
                Status::Code(101) => self.decide(Answer::Upgraded),
                Status::Code(100..=199) => {
                    // Not the answer yet: that comes after this head.
                    let end = seen.windows(4).position(|four| four == b"\r\n\r\n");
                    match end.and_then(|end| seen.get(end + 4..)) {
                        Some(rest) => {
                            seen = rest.to_vec();
                            continue;
                        }
                        None if seen.len() < MOST_HELD => return seen,
                        None => self.decide(Answer::NotUpgraded),
                    }
                }
                Status::Code(_) | Status::NotHttp => self.decide(Answer::NotUpgraded),
            }
            return Vec::new();
        }
    }
}

async fn backward(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    traffic: &Traffic,
    answers: &Answers,
) -> Result<(), Broken> {
    let mut seen = Vec::new();
    loop {
        let came = read_some(from, |bytes| {
            if answers.asked.get() {
                seen.extend_from_slice(bytes);
                seen = answers.look(std::mem::take(&mut seen));
            }
            match to.try_write(bytes) {
                Ok(written) => Ok((written, bytes.get(written..).unwrap_or_default().to_vec())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, bytes.to_vec())),
                Err(error) => Err(error),
            }
        });
        match came.await? {
            Some(moved) => {
                let (written, rest) = moved?;
                count(&traffic.received, written);
                relay::write_all(to, &rest, &traffic.received).await?;
            }
            None => {
                if answers.asked.get() {
                    answers.decide(Answer::NotUpgraded);
                }
                return Ok(finish(to).await?);
            }
        }
    }
}
