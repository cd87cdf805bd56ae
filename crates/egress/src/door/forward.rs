//! HTTP: requests for other hosts are passed on, one upstream connection at a time; CONNECT becomes a tunnel.

use std::{cell::Cell, io};

use tokio::net::{
    TcpStream,
    tcp::{ReadHalf, WriteHalf},
};

use super::{admit, last_word, read_more, tell_misused, tell_refused, write};
use crate::{
    carry::{self, Journey, NoWay},
    engine::Shared,
    event::{Origin, Way},
    relay::{self, Busy, finish, pump, read_some, reset},
    request::{Form, Head, RequestError, Scheme, Step, Tracker, Upgrade, rewrite},
    response,
};

/// What the client said, and has not been dealt with.
struct Said {
    tracker: Tracker,
    input: Vec<u8>,
}

/// Why an exchange with one upstream is over.
enum Over {
    /// One side has finished.
    Finished,
    /// A request for another host.
    Next(Box<Head>),
    Malformed(RequestError),
}

pub async fn serve(shared: &Shared, mut client: TcpStream, origin: Origin, early: Vec<u8>) -> io::Result<()> {
    let mut said = Said { tracker: Tracker::new(), input: early };
    let mut head = match first_head(&mut client, &mut said).await? {
        Ok(head) => head,
        Err(error) => return misused(shared, &mut client, &origin, &error.to_string()).await,
    };
    loop {
        if matches!(head.upgrade, Upgrade::Asked(_)) {
            // What follows could not be read any more, and need not be for this host.
            let why = "a change of protocol is asked for through CONNECT";
            return misused(shared, &mut client, &origin, why).await;
        }
        let way = if head.form == Form::Authority { Way::Connect } else { Way::HttpProxy };
        let port = match head.form {
            Form::Authority => head.authority.port_or(443),
            Form::Absolute(Scheme::Http) => head.authority.port_or(80),
            Form::Absolute(Scheme::Https) => {
                let why = "https is asked for with CONNECT";
                return misused(shared, &mut client, &origin, why).await;
            }
            Form::Origin | Form::Asterisk => {
                let why = "this is a proxy: it takes whole addresses, such as http://example.com/";
                return misused(shared, &mut client, &origin, why).await;
            }
        };
        shared.look_at_name(&head.authority.host).await;
        let journey = match admit(shared, &head.authority.host, port, &origin, way) {
            Ok(journey) => journey,
            Err((shown, denial)) => {
                let answer = response::refusal(&denial);
                tell_refused(shared, shown, port, &origin, way, denial).await;
                return last_word(&mut client, &answer).await;
            }
        };
        let mut server = match journey.set_out(shared).await {
            Ok(server) => server,
            Err(why) => {
                let answer = match &why {
                    NoWay::Denied(denial) => response::refusal(denial),
                    NoWay::Unreachable(error) => response::unreachable(&head.authority.host, error),
                };
                journey.tell_no_way(shared, why).await;
                return last_word(&mut client, &answer).await;
            }
        };
        if way == Way::Connect {
            write(&mut client, b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            carry::carry(shared, client, server, journey, said.input).await;
            return Ok(());
        }
        match exchange(shared, &mut client, &mut server, journey, &head, &mut said).await? {
            Over::Finished => return Ok(()),
            Over::Next(next) => head = next,
            Over::Malformed(error) => {
                return misused(shared, &mut client, &origin, &error.to_string()).await;
            }
        }
    }
}

async fn misused(shared: &Shared, client: &mut TcpStream, origin: &Origin, why: &str) -> io::Result<()> {
    tell_misused(shared, origin, Way::HttpProxy, why).await;
    last_word(client, &response::bad_request(why)).await
}

/// Reads until there is a whole head; what came behind it stays in `said`.
async fn first_head(client: &mut TcpStream, said: &mut Said) -> io::Result<Result<Box<Head>, RequestError>> {
    loop {
        if said.input.is_empty() {
            read_more(client, &mut said.input).await?;
        }
        match said.tracker.feed(&said.input) {
            Ok(Step::Head { taken, head }) => {
                said.input.drain(..taken.min(said.input.len()));
                return Ok(Ok(head));
            }
            Ok(Step::Kept { .. } | Step::Pass { .. } | Step::Wait) => said.input.clear(),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Requests to one host, over one connection to it.
async fn exchange(
    shared: &Shared,
    client: &mut TcpStream,
    server: &mut TcpStream,
    journey: Journey,
    head: &Head,
    said: &mut Said,
) -> io::Result<Over> {
    relay::make_modest(client, server, shared.gate.open_connections());
    let _busy = Busy::start();
    let outcome = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let out = pass_on(&mut from_client, &mut to_server, head, said, &journey.traffic().sent);
        let back = pump(&mut from_server, &mut to_client, &journey.traffic().received);
        let (mut out, mut back) = (std::pin::pin!(out), std::pin::pin!(back));
        let both = async {
            tokio::select! {
                over = &mut out => match over {
                    // The client says no more, but may still be answered.
                    Ok(Over::Finished) => back.await.map(|()| Over::Finished),
                    other => other,
                },
                ended = &mut back => ended.map(|()| Over::Finished),
            }
        };
        shared.until_over(both).await
    };
    let failure = outcome.as_ref().err().map(ToString::to_string);
    if failure.is_some() {
        reset(server);
        reset(client);
    }
    journey.tell_closed(shared, failure).await;
    outcome
}

async fn pass_on(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    first: &Head,
    said: &mut Said,
    sent: &Cell<u64>,
) -> io::Result<Over> {
    relay::write_all(to, &rewrite(first), sent).await?;
    loop {
        while !said.input.is_empty() {
            let taken = match said.tracker.feed(&said.input) {
                Ok(Step::Kept { taken }) => taken,
                Ok(Step::Pass { taken }) => {
                    relay::write_all(to, said.input.get(..taken).unwrap_or_default(), sent).await?;
                    taken
                }
                Ok(Step::Head { taken, head }) => {
                    let same = head.form == first.form
                        && head.authority.agrees(&first.authority, 80)
                        && !matches!(head.upgrade, Upgrade::Asked(_));
                    if !same {
                        said.input.drain(..taken.min(said.input.len()));
                        return Ok(Over::Next(head));
                    }
                    relay::write_all(to, &rewrite(&head), sent).await?;
                    taken
                }
                // No request that asks for another protocol gets here.
                Ok(Step::Wait) => return Ok(Over::Finished),
                Err(error) => return Ok(Over::Malformed(error)),
            };
            said.input.drain(..taken.min(said.input.len()));
        }
        if read_some(from, |bytes| said.input.extend_from_slice(bytes)).await?.is_none() {
            finish(to).await?;
            return Ok(Over::Finished);
        }
    }
}
