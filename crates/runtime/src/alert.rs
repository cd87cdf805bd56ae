//! Tells the operator at once when something tried to escape: a command or a webhook on this machine, as the
//! operator's own configuration says ([`crate::configuration`]). The audit log has it in any case.

use std::{
    io::{self, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::Value;

/// Neither a command nor a webhook may hold things up for longer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum AlertError {
    #[error("alert.webhook `{0}` is not http://ADDRESS:PORT/PATH with a loopback address")]
    Webhook(String),
    #[error("alert.command is empty")]
    EmptyCommand,
    #[error("the alert command {program} {what}")]
    Command { program: String, what: String },
    #[error("the alert could not be delivered to {address}: {source}")]
    Delivery { address: SocketAddr, source: io::Error },
    #[error("the webhook {address} answered: {answer}")]
    Answer { address: SocketAddr, answer: String },
}

/// Where alerts go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destinations {
    #[serde(default)]
    pub command: Option<Vec<String>>,
    #[serde(default)]
    pub webhook: Option<String>,
}

impl Destinations {
    /// Whether alerts can go there at all.
    pub fn check(&self) -> Result<(), AlertError> {
        if let Some(webhook) = &self.webhook {
            endpoint(webhook)?;
        }
        if self.command.as_ref().is_some_and(Vec::is_empty) {
            return Err(AlertError::EmptyCommand);
        }
        Ok(())
    }

    /// Tells everybody; what could not be delivered comes back.
    pub fn tell(&self, alert: &Value) -> Vec<AlertError> {
        let text = alert.to_string();
        let by_command = self.command.as_ref().map(|command| run(command, &text));
        let by_webhook = self.webhook.as_ref().map(|webhook| post(webhook, &text));
        [by_command, by_webhook].into_iter().flatten().filter_map(Result::err).collect()
    }
}

fn run(command: &[String], text: &str) -> Result<(), AlertError> {
    let Some((program, arguments)) = command.split_first() else { return Err(AlertError::EmptyCommand) };
    let failed = |what: String| AlertError::Command { program: program.clone(), what };
    #[expect(clippy::disallowed_methods, reason = "the operator's own program, outside of any sandbox")]
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read is its own loss; an alert fits into the pipe.
        let _ = input.write_all(text.as_bytes());
    }
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(format!("failed ({status})"))),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(failed(format!("was lost: {error}"))),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(failed(format!("took longer than {PATIENCE:?} and was ended")))
}

/// Address and path of a webhook. Nothing but this machine: an alert is no way out.
fn endpoint(webhook: &str) -> Result<(SocketAddr, &str), AlertError> {
    let bad = || AlertError::Webhook(webhook.to_owned());
    let rest = webhook.strip_prefix("http://").ok_or_else(bad)?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let authority = authority.replace("localhost", "127.0.0.1");
    let address: SocketAddr = authority.parse().map_err(|_| bad())?;
    let is_loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    };
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    if is_loopback && is_plain { Ok((address, path)) } else { Err(bad()) }
}

fn post(webhook: &str, text: &str) -> Result<(), AlertError> {
    let (address, path) = endpoint(webhook)?;
    let failed = |source| AlertError::Delivery { address, source };
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).map_err(failed)?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).map_err(failed)?;
    let answer = String::from_utf8_lossy(answer.get(..length).unwrap_or_default()).into_owned();
    let line = answer.lines().next().unwrap_or_default();
    let is_good = line.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
    if is_good { Ok(()) } else { Err(AlertError::Answer { address, answer: line.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use std::{fs, net::TcpListener};

    use super::*;

    #[test]
    fn only_this_machine_is_told() {
        assert!(endpoint("http://127.0.0.1:80/x").is_ok());
        assert!(endpoint("http://[::1]:80").is_ok());
        assert!(endpoint("http://localhost:8080/a/b?c=d").is_ok());
        for bad in [
            "http://10.0.0.1:80/",
            "https://127.0.0.1/",
            "http://example.com:80/",
            "http://127.0.0.1/",
            "http://127.0.0.1:80/a b",
            "http://127.0.0.1:80/a\r\nX: y",
            "http://localhost.evil:80/",
        ] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_webhook_gets_the_alert_and_its_refusal_is_told() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        for (status, good) in [("200 OK", true), ("500 No", false)] {
            let server = server.try_clone().unwrap();
            let thread = std::thread::spawn(move || {
                let (mut stream, _) = server.accept().unwrap();
                let mut request = vec![0; 4096];
                let mut length = 0;
                while !request[..length].ends_with(b"{\"a\":1}") {
                    length += stream.read(&mut request[length..]).unwrap();
                }
                stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).unwrap();
                String::from_utf8_lossy(&request[..length]).into_owned()
            });
            let result = post(&format!("http://{address}/hook"), "{\"a\":1}");
            assert_eq!(result.is_ok(), good, "{result:?}");
            assert!(thread.join().unwrap().starts_with("POST /hook HTTP/1.1\r\n"));
        }
    }

    #[test]
    fn a_command_gets_the_alert_and_its_failure_is_told() {
        let file = std::env::temp_dir().join(format!("lazaret-alert-{}", std::process::id()));
        let command = |script: &str| Destinations {
            command: Some(vec![
                "sh".into(),
                "-c".into(),
                script.into(),
                "sh".into(),
                file.to_str().unwrap().into(),
            ]),
            webhook: None,
        };
        let alert = serde_json::json!({ "event": "ESCAPE_ATTEMPT" });
        assert!(command("cat > \"$1\"").tell(&alert).is_empty());
        assert_eq!(fs::read_to_string(&file).unwrap(), alert.to_string());
        assert_eq!(command("exit 3").tell(&alert).len(), 1);
        fs::remove_file(&file).unwrap();
    }
}
