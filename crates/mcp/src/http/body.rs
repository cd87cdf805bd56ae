//! Reads the body of a request, as much of it and for as long as is allowed.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::{
    StatusCode,
    body::{Body as _, Incoming},
};
use tokio::time::{Instant, timeout_at};

use super::answer::{Refusal, TRANSPORT};

/// For all of a body.
const LONGEST: Duration = Duration::from_secs(120);

/// `pause` may pass between two pieces.
pub async fn read(mut body: Incoming, largest: usize, pause: Duration) -> Result<Bytes, Refusal> {
    let too_large = || {
        let message = format!("the body is larger than {} bytes", largest);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, TRANSPORT, message)
    };
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > largest {
        return Err(too_large());
    }
    // What is announced is not made room for until it comes.
    let mut whole = BytesMut::with_capacity(announced.min(64 << 10));
    let end = Instant::now() + LONGEST;
    loop {
        let frame = timeout_at(end.min(Instant::now() + pause), body.frame())
            .await
            .map_err(|_| Refusal::new(StatusCode::REQUEST_TIMEOUT, TRANSPORT, "the body came too slowly"))?;
        match frame {
            None => return Ok(whole.freeze()),
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                if whole.len() + data.len() > largest {
                    return Err(too_large());
                }
                whole.extend_from_slice(&data);
            }
            Some(Err(_)) => {
                return Err(Refusal::new(StatusCode::BAD_REQUEST, TRANSPORT, "the body did not come whole"));
            }
        }
    }
}
