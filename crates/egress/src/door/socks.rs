//! SOCKS 5: one request for a connection, then that connection.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::TcpStream;

use super::{admit, last_word, read_more, tell_misused, tell_refused, write};
use crate::{
    carry::{self, NoWay},
    dial,
    engine::Shared,
    event::{Origin, Way},
    socks::{self, Command, Destination, Method, Parsed, Reply},
};

pub async fn serve(
    shared: &Shared,
    mut client: TcpStream,
    origin: Origin,
    mut early: Vec<u8>,
) -> io::Result<()> {
    let greeting = loop {
        match socks::greeting(&early) {
            Ok(Parsed::Incomplete) => read_more(&mut client, &mut early).await?,
            Ok(Parsed::Complete { message, taken }) => {
                early.drain(..taken.min(early.len()));
                break message;
            }
            Err(error) => {
                tell_misused(shared, &origin, Way::Socks, &error.to_string()).await;
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    };
    if !greeting.offers(Method::NoAuthentication) {
        return last_word(&mut client, &socks::method_selection(Method::NoneAcceptable)).await;
    }
    write(&mut client, &socks::method_selection(Method::NoAuthentication)).await?;
    let request = loop {
        match socks::request(&early) {
            Ok(Parsed::Incomplete) => read_more(&mut client, &mut early).await?,
            Ok(Parsed::Complete { message, taken }) => {
                early.drain(..taken.min(early.len()));
                break message;
            }
            Err(error) => {
                tell_misused(shared, &origin, Way::Socks, &error.to_string()).await;
                return last_word(&mut client, &answer(error.reply())).await;
            }
        }
    };
    if request.command != Command::Connect {
        tell_misused(shared, &origin, Way::Socks, "another command of SOCKS than CONNECT").await;
        return last_word(&mut client, &answer(Reply::CommandNotSupported)).await;
    }
    let host = match request.destination {
        Destination::Ip(address) => address.to_string(),
        Destination::Name(name) => name,
    };
    shared.look_at_name(&host).await;
    let journey = match admit(shared, &host, request.port, &origin, Way::Socks) {
        Ok(journey) => journey,
        Err((shown, denial)) => {
            tell_refused(shared, shown, request.port, &origin, Way::Socks, denial).await;
            return last_word(&mut client, &answer(Reply::NotAllowed)).await;
        }
    };
    match journey.set_out(shared).await {
        Ok(server) => {
            write(&mut client, &answer(Reply::Succeeded)).await?;
            carry::carry(shared, client, server, journey, early).await;
            Ok(())
        }
        Err(why) => {
            let reply = match &why {
                NoWay::Denied(_) => Reply::NotAllowed,
                NoWay::Unreachable(error) => match dial::errno(error) {
                    111 => Reply::ConnectionRefused,
                    101 => Reply::NetworkUnreachable,
                    110 => Reply::TtlExpired,
                    _ => Reply::HostUnreachable,
                },
            };
            journey.tell_no_way(shared, why).await;
            last_word(&mut client, &answer(reply)).await
        }
    }
}

fn answer(reply: Reply) -> Vec<u8> {
    socks::reply(reply, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))
}
