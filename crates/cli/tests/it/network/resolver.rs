//! A name server on the host that is asked in place of the host's own, in a mount namespace of its own. It needs
//! root, for the port and for the mount; `lazaret` itself runs as either.

use std::{
    net::{IpAddr, UdpSocket},
    os::unix::fs::chown,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use crate::case::{Case, OTHER, Outcome, Who, has_root, has_tool};

/// A question that came: name and type.
pub type Asked = (String, u16);

pub struct Resolver {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Resolver {
    /// `answer` gives the addresses of a name; those of the type that was asked for are told.
    pub fn start(answer: impl Fn(&str, usize) -> Vec<IpAddr> + Send + 'static) -> Resolver {
        let address = Resolver::address();
        let socket = UdpSocket::bind((address.as_str(), 53)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::downgrade(&asked);
        thread::spawn(move || {
            let mut buffer = [0; 1500];
            // Until nobody wants to know any more.
            while heard.strong_count() > 0 {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                let Some((name, kind, end)) = question(&buffer[..length]) else { continue };
                let Some(asked) = heard.upgrade() else { break };
                let mut asked = asked.lock().unwrap();
                let before = asked.iter().filter(|one| **one == (name.clone(), kind)).count();
                asked.push((name.clone(), kind));
                drop(asked);
                let reply = reply(&buffer[..end], kind, &answer(&name, before));
                let _ = socket.send_to(&reply, from);
            }
        });
        Resolver { address, asked }
    }

    /// An address of this host that nobody else uses.
    pub fn address() -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        format!("127.{}.{}.{number}", 64 + std::process::id() % 64, std::process::id() / 64 % 250)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// The name and type of a query's question, and where it ends.
fn question(bytes: &[u8]) -> Option<(String, u16, usize)> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let size = usize::from(*bytes.get(at)?);
        if size == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(bytes.get(at + 1..at + 1 + size)?).to_ascii_lowercase());
        at += 1 + size;
    }
    Some((labels.join("."), u16::from_be_bytes([*bytes.get(at + 1)?, *bytes.get(at + 2)?]), at + 5))
}

fn reply(query: &[u8], kind: u16, addresses: &[IpAddr]) -> Vec<u8> {
    let mut reply = query.to_vec();
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match (address, kind) {
            (IpAddr::V4(v4), 1) => Some(v4.octets().to_vec()),
            (IpAddr::V6(v6), 28) => Some(v6.octets().to_vec()),
            _ => None,
        })
        .collect();
    reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    for data in records {
        reply.extend([0xc0, 12]);
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
        reply.extend(data);
    }
    reply
}

/// In a mount namespace of its own, so that the host's /etc stays as it is.
const ASKING: &str = "mount --bind \"$RESOLV\" /etc/resolv.conf && \
    exec setpriv --reuid \"$AS\" --regid \"$AS\" --clear-groups \"$@\"";

/// Tries the same as root and as an ordinary user, where names are asked of another resolver.
pub fn with_resolver(test: impl Fn(&Case, &dyn Fn(&str, &[String], &str) -> Outcome) + Sync) {
    if !has_root() || !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    let try_as = &|uid: u32| {
        let case = Case::new(Who::Caller);
        for directory in [&case.root, &case.work, &case.home, &case.state] {
            chown(directory, Some(uid), Some(uid)).unwrap();
        }
        test(&case, &|address, flags, script| {
            let resolv = case.file(case.root.join("resolv.conf"), format!("nameserver {address}\n"));
            let command = ["--", "/usr/bin/python3", "-c", script];
            case.running(flags.iter().map(String::as_str).chain(command))
                .under(["unshare", "-m", "sh", "-c", ASKING, "sh"])
                .env("RESOLV", resolv)
                .env("AS", uid.to_string())
                .go()
        });
    };
    thread::scope(|scope| {
        for uid in [0, OTHER] {
            scope.spawn(move || try_as(uid));
        }
    });
}
