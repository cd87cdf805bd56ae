//! Clients of languages that bring their own network code: Java and Go.

use std::{fs, path::PathBuf, process::Command, sync::OnceLock};

use super::{clients::try_client, servers::Server};
use crate::{
    case::{Case, PATH, Who, as_everybody, has_tool},
    host::outside,
};

/// The older client, and the newer one, which offers HTTP/2 without TLS first.
const JAVA: &str = r#"
import java.net.*;
import java.net.http.*;

public class Client {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("old")) {
            URLConnection connection = new URL(args[1]).openConnection();
            connection.setConnectTimeout(8000);
            connection.setReadTimeout(8000);
            System.out.println(new String(connection.getInputStream().readAllBytes()));
        } else {
            HttpRequest request = HttpRequest.newBuilder(URI.create(args[1])).build();
            System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
        }
    }
}
"#;

const GO: &str = r#"
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(string(body))
}
"#;

/// Compiled once, on the host.
fn java_class() -> Vec<u8> {
    static CLASS: OnceLock<Vec<u8>> = OnceLock::new();
    let compile = || {
        let case = Case::new(Who::Caller);
        case.file("Client.java", JAVA);
        outside(&case, "javac -J-XX:TieredStopAtLevel=1 Client.java");
        fs::read(case.work.join("Client.class")).unwrap()
    };
    CLASS.get_or_init(compile).clone()
}

fn java(client: &str) {
    if !has_tool("java") || !has_tool("javac") {
        return;
    }
    as_everybody(|case| {
        let server = Server::http();
        case.file("Client.class", java_class());
        let url = format!("http://web.test:{}/x", server.port);
        let command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx64m", "-cp", ".", "Client", client, &url];
        let text = format!("GET /x at web.test:{} with 0 bytes", server.port);
        try_client(case, server.port, &command, &text);
    });
}

#[test]
fn java_reaches_a_listed_host_by_its_old_client() {
    java("old");
}

#[test]
fn java_reaches_a_listed_host_by_its_new_client() {
    java("new");
}

/// Built once, on the host. Without cgo it looks names up by itself.
fn go_program() -> PathBuf {
    static MADE: OnceLock<Case> = OnceLock::new();
    let case = MADE.get_or_init(|| {
        let case = Case::new(Who::Caller);
        case.file("client.go", GO);
        let built = Command::new("go")
            .args(["build", "-o", "client", "client.go"])
            .current_dir(&case.work)
            .env_clear()
            .envs([("PATH", PATH), ("CGO_ENABLED", "0"), ("GO111MODULE", "off"), ("GOFLAGS", "-p=2")])
            .env("HOME", &case.home)
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        case
    });
    case.work.join("client")
}

#[test]
fn go_reaches_a_listed_host() {
    if !has_tool("go") {
        return;
    }
    let program = fs::read(go_program()).unwrap();
    as_everybody(|case| {
        let server = Server::http();
        let path = case.file("client", &program);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let url = format!("http://web.test:{}/x", server.port);
        let text = format!("GET /x at web.test:{} with 0 bytes", server.port);
        try_client(case, server.port, &["./client", &url], &text);
    });
}
