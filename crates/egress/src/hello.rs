//! The first message of TLS, the ClientHello: which server it names, and whether it hides another name.
//!
//! Reads what came so far from its first byte each time. Whether a name may be reached is for others to say.

/// The most bytes a hello may take, record headers included. A hello that is not complete by then is malformed.
pub const MAX_HELLO: usize = 64 * 1024;

const HANDSHAKE: u8 = 22;
/// Records from 20 on are of TLS: change of cipher, alert, handshake, data, heartbeat.
const OTHER_RECORDS_FIRST: u8 = 20;
const OTHER_RECORDS_LAST: u8 = 24;
const CLIENT_HELLO: usize = 1;
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
/// RFC 8446, 5.1: a record without protection holds no more, and one of a handshake is never empty.
const MAX_RECORD: usize = 1 << 14;
/// RFC 6066, 3.
const SERVER_NAME: usize = 0;
const HOST_NAME: usize = 0;
/// RFC 9849, 5.
const ENCRYPTED_CLIENT_HELLO: usize = 0xfe0d;
const MAX_NAME: usize = 255;

/// What the bytes are. Once it is not `Incomplete`, more bytes do not change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// The start of a hello, or nothing yet.
    Incomplete,
    /// No TLS record.
    NotTls,
    /// A TLS record that holds no proper ClientHello, or one that two readers may understand differently; an
    /// SSL 2 hello.
    Malformed,
    ClientHello {
        /// As it was sent: visible ASCII characters, not checked to be a host name.
        server_name: Option<String>,
        /// There is an `encrypted_client_hello`, so `server_name` need not be the server meant. One that a
        /// browser sends as a decoy (GREASE) looks the same.
        encrypted: bool,
    },
}

/// Reads the hello at the start of `bytes`: all that a client has sent so far.
pub fn server_name(bytes: &[u8]) -> Hello {
    let looked_at = bytes.get(..MAX_HELLO).unwrap_or(bytes);
    match message(looked_at).and_then(|message| client_hello(&message)) {
        Ok(hello) => hello,
        Err(Stop::NotTls) => Hello::NotTls,
        Err(Stop::More) if bytes.len() < MAX_HELLO => Hello::Incomplete,
        Err(Stop::More | Stop::Malformed) => Hello::Malformed,
    }
}

/// Why reading stopped before the end.
enum Stop {
    More,
    NotTls,
    Malformed,
}

/// As much of the first handshake message as is there, taken out of its records.
fn message(bytes: &[u8]) -> Result<Vec<u8>, Stop> {
    let mut message = Vec::with_capacity(bytes.len());
    let mut promised = 0;
    let mut rest = bytes;
    loop {
        let wrong = if promised == 0 { Stop::NotTls } else { Stop::Malformed };
        let Some(length) = record_length(rest, wrong)? else { return Ok(message) };
        promised += length;
        let body = rest.get(RECORD_HEADER..).unwrap_or_default();
        let whole = body.split_at_checked(length);
        message.extend_from_slice(whole.map_or(body, |(fragment, _)| fragment));
        if let [kind, length @ ..] = message.get(..MESSAGE_HEADER).unwrap_or_default() {
            let needed = MESSAGE_HEADER + number(length);
            // Nothing may follow a hello before the server has answered, least of all in its own record.
            if usize::from(*kind) != CLIENT_HELLO || needed > MAX_HELLO || promised > needed {
                return Err(Stop::Malformed);
            }
            if promised == needed {
                return Ok(message);
            }
        }
        match whole {
            Some((_, next)) => rest = next,
            None => return Ok(message),
        }
    }
}

/// What the record at the start of `bytes` will hold; `None` when its header is not all there.
fn record_length(bytes: &[u8], wrong: Stop) -> Result<Option<usize>, Stop> {
    let mut header = bytes.iter().copied();
    match header.next() {
        None => return Ok(None),
        Some(HANDSHAKE) => {}
        // Other records of TLS: no client begins with one, and what a server would make of it is not known.
        Some(OTHER_RECORDS_FIRST..=OTHER_RECORDS_LAST) => return Err(Stop::Malformed),
        // The greeting of SSL 2, which some servers still take for one of TLS.
        Some(0x80..) if matches!(bytes.get(2..5), Some([1, 3, _] | [1, 0, 2])) => {
            return Err(Stop::Malformed);
        }
        Some(0x80..) if bytes.len() < 5 && bytes.get(2).is_none_or(|kind| *kind == 1) => return Ok(None),
        Some(_) => return Err(wrong),
    }
    // The version is not looked at: servers ignore it (RFC 8446, 5.1), and so it tells nothing.
    let (Some(_), Some(_)) = (header.next(), header.next()) else { return Ok(None) };
    let Some(high) = header.next() else { return Ok(None) };
    if usize::from(high) << 8 > MAX_RECORD {
        return Err(Stop::Malformed);
    }
    let Some(low) = header.next() else { return Ok(None) };
    match number(&[high, low]) {
        length @ 1..=MAX_RECORD => Ok(Some(length)),
        _ => Err(Stop::Malformed),
    }
}

/// RFC 8446, 4.1.2 and RFC 5246, 7.4.1.2.
fn client_hello(message: &[u8]) -> Result<Hello, Stop> {
    let mut message = Reader { bytes: message, at: 0, end: usize::MAX };
    if message.number(1)? != CLIENT_HELLO {
        return Err(Stop::Malformed);
    }
    let length = message.number(3)?;
    let mut body = message.part(length)?;
    if body.number(1)? != 3 {
        return Err(Stop::Malformed);
    }
    // The minor version and the random bytes.
    body.take(1 + 32)?;
    body.vector(1, |length| length <= 32)?;
    body.vector(2, |length| length >= 2 && length % 2 == 0)?;
    body.vector(1, |length| length >= 1)?;
    let (mut server_name, mut encrypted) = (None, false);
    if !body.is_done() {
        if body.number(2)? != body.end - body.at {
            return Err(Stop::Malformed);
        }
        while !body.is_done() {
            let kind = body.number(2)?;
            let length = body.number(2)?;
            let mut content = body.part(length)?;
            match kind {
                SERVER_NAME if server_name.is_some() => return Err(Stop::Malformed),
                SERVER_NAME => server_name = Some(host_name(&mut content)?),
                ENCRYPTED_CLIENT_HELLO => encrypted = true,
                _ => {}
            }
            // What was not read has to be there all the same.
            content.take(content.end - content.at)?;
        }
    }
    Ok(Hello::ClientHello { server_name, encrypted })
}

/// The only name in a list of names. No kind of name but `host_name` was ever defined, and with several of
/// them servers differ in which one they take.
fn host_name(list: &mut Reader<'_>) -> Result<String, Stop> {
    if list.number(2)? != list.end - list.at || list.number(1)? != HOST_NAME {
        return Err(Stop::Malformed);
    }
    let length = list.number(2)?;
    if length != list.end - list.at || !(1..=MAX_NAME).contains(&length) {
        return Err(Stop::Malformed);
    }
    let mut name = String::with_capacity(length);
    while !list.is_done() {
        match list.take(1)? {
            [byte] if byte.is_ascii_graphic() => name.push(char::from(*byte)),
            _ => return Err(Stop::Malformed),
        }
    }
    Ok(name)
}

/// Bytes of which some may be still to come, up to a promised end.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let part = self.part(count)?;
        self.bytes.get(part.at..part.end).ok_or(Stop::More)
    }

    fn number(&mut self, size: usize) -> Result<usize, Stop> {
        self.take(size).map(number)
    }

    /// The next `count` bytes, there or not.
    fn part(&mut self, count: usize) -> Result<Reader<'a>, Stop> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.end).ok_or(Stop::Malformed)?;
        let part = Reader { bytes: self.bytes, at: self.at, end };
        self.at = end;
        Ok(part)
    }

    /// Skips a list that begins with its length.
    fn vector(&mut self, size: usize, fits: impl FnOnce(usize) -> bool) -> Result<(), Stop> {
        let length = self.number(size)?;
        if !fits(length) {
            return Err(Stop::Malformed);
        }
        self.take(length).map(|_| ())
    }

    fn is_done(&self) -> bool {
        self.at == self.end
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests;
