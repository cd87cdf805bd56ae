//! Servers on the host's loopback, for as long as a test lasts.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::case::{Case, PATH, Who};

/// A server in threads of the test.
pub struct Server {
    pub port: u16,
    accepted: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Server {
    /// Each connection is handled in a thread of its own.
    pub fn start(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (accepted, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, flag, handle) = (Arc::clone(&accepted), Arc::clone(&over), Arc::new(handle));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if flag.load(Ordering::Relaxed) {
                    break;
                }
                counter.fetch_add(1, Ordering::Relaxed);
                let (Ok(stream), handle) = (stream, Arc::clone(&handle)) else { continue };
                thread::Builder::new().stack_size(128 << 10).spawn(move || handle(stream)).unwrap();
            }
        });
        Server { port, accepted, over }
    }

    /// How many connections have come.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Sends back what it gets.
    pub fn echo() -> Server {
        Server::start(|stream| {
            let mut to = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut &stream, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        })
    }

    /// HTTP that says what was asked for: `GET /path at HOST with N bytes`.
    pub fn http() -> Server {
        Server::start(|stream| drop(answer_requests(stream)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn answer_requests(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let (mut host, mut length, mut chunked) = (String::new(), 0_usize, false);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "host" => host = value.trim().to_owned(),
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "transfer-encoding" => chunked = value.contains("chunked"),
                _ => {}
            }
        }
        while chunked {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            std::io::copy(&mut (&mut reader).take(size as u64 + 2), &mut std::io::sink())?;
            length += size;
            chunked = size > 0;
            if !chunked {
                return respond(&mut to, &first, &host, length).map(drop);
            }
        }
        std::io::copy(&mut (&mut reader).take(length as u64), &mut std::io::sink())?;
        respond(&mut to, &first, &host, length)?;
    }
}

fn respond(to: &mut TcpStream, first: &str, host: &str, length: usize) -> std::io::Result<()> {
    let request = first.rsplit_once(' ').map_or(first, |(request, _)| request);
    let body = format!("{request} at {host} with {length} bytes");
    to.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

/// A program of the host that ends with the test.
pub struct Program {
    child: Child,
    signal: rustix::process::Signal,
}

impl Program {
    /// What is started dies with the thread that starts it, whatever becomes of that.
    pub fn start(command: &[&str], as_uid: Option<(u32, u32)>, directory: &Path) -> Program {
        let ids = as_uid.map(|(uid, gid)| [format!("--reuid={uid}"), format!("--regid={gid}")]);
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "INT"])
            .args(ids.iter().flatten())
            .args(ids.is_some().then_some("--clear-groups"))
            .args(command)
            .current_dir(directory)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(directory.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Program { child, signal: rustix::process::Signal::INT }
    }

    /// The first line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = rustix::process::kill_process(pid, self.signal);
        if crate::case::wait_within(&mut self.child, Duration::from_secs(3)).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A directory with `ca.crt`, and `server.crt` and `server.key` for the names below `test`, made once.
pub fn authority() -> PathBuf {
    static MADE: OnceLock<Case> = OnceLock::new();
    let case = MADE.get_or_init(|| {
        let case = Case::new(Who::Caller);
        let script = "
            new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
            openssl req -x509 $new -keyout ca.key -out ca.crt -days 30 -subj /CN=lazaret-test-ca \
              -addext keyUsage=critical,keyCertSign
            openssl req $new -keyout server.key -out server.csr -subj /CN=web.test
            printf 'subjectAltName=DNS:web.test,DNS:other.test,DNS:localhost\\nbasicConstraints=CA:FALSE\\n' > ext
            openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 \
              -extfile ext -out server.crt";
        crate::host::outside(&case, script);
        case
    });
    case.work.clone()
}

const HTTPS: &str = "
import http.server, os, ssl, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *rest): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + '/server.crt', sys.argv[1] + '/server.key')
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
server.serve_forever()";

/// The files of a directory over HTTPS, and its port.
pub fn https(directory: &Path) -> (Program, u16) {
    let authority = authority();
    let command = ["/usr/bin/python3", "-c", HTTPS, authority.to_str().unwrap()];
    let mut program = Program::start(&command, None, directory);
    let port = program.line();
    (program, port.parse().expect("the server for HTTPS did not start"))
}
