//! A socket of the host's network as a standard stream: a finished connection is a stream like any other, everything
//! else would lead around the gate.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    process::Stdio,
    time::Duration,
};

use crate::case::{Running, as_everybody, has_tool};

#[test]
fn a_datagram_socket_on_standard_input_sends_nothing() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let judge = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        judge.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let port = judge.local_addr().unwrap().port();
        let script = format!(
            "
import socket
try:
    s = socket.socket(fileno=0)
    s.sendto(b'through', ('127.0.0.1', {port}))
    s.sendmsg([b'through'], [], 0, ('127.0.0.1', {port}))
except OSError as error: print('refused')"
        );
        let stream = || OwnedFd::from(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let mut command = case.running(["--", "/usr/bin/python3", "-c", &script]).command();
        command.stdin(stream()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap()).finish().exits(0).prints("refused");
        assert!(judge.recv(&mut [0; 16]).is_err());
        // The same without the sandbox: the judge does hear it.
        let mut bare = std::process::Command::new("/usr/bin/python3");
        let mut bare = bare.args(["-c", &script]).stdin(stream()).spawn().unwrap();
        bare.wait().unwrap();
        assert!(judge.recv(&mut [0; 16]).is_ok());
    });
}

#[test]
fn a_finished_connection_is_a_stream_like_any_other() {
    as_everybody(|case| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut &ours, b"by a connection\n").unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let mut command = case.running(["--", "cat"]).command();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().unwrap()).finish().exits(0).prints("by a connection");
    });
}
